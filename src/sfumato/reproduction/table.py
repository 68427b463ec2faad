"""The table of exhibits: every figure and table that is made again, with its settings."""

from __future__ import annotations

from sfumato.reproduction import (
    acharya,
    cormode_data,
    cormode_figures,
    kamalaruban,
    xiang,
    xiang_ranges,
)
from sfumato.reproduction.exhibits import Exhibit

#: The papers, by their names on the command line.
PAPERS = {
    "xiang": "Xiang et al. 2020, linear and range counting under metric-based local DP",
    "cormode": "Cormode et al. 2019, answering range queries under local DP",
    "acharya": "Acharya et al. 2020, context-aware local DP",
    "kamalaruban": "Kamalaruban et al. 2020, d_X-private mechanisms for linear queries",
}

_ZIPF = (
    "every axis of a value by Zipf's law with exponent 1.1, m = 10, n = 1,000, all single values "
    "and 100 random ranges, three repetitions"
)

EXHIBITS: tuple[Exhibit, ...] = (
    Exhibit(
        paper="xiang",
        edition="conference",
        label="Figure 1",
        title="Squared error of single values and ranges, and the bound",
        settings=f"{_ZIPF}. The text at hand has no axes: D = 1 to 5, n as in the full version, "
        "ε = 0.5 to 3",
        make=xiang_ranges.simulated((1, 2, 3, 4, 5)),
        findings=xiang_ranges.below_the_bound,
        rows=xiang_ranges.rows_of_points,
        draw=xiang_ranges.draw_points,
    ),
    Exhibit(
        paper="xiang",
        edition="full version",
        label="Figure 1",
        title="Total error of all single values under E_S, by the size of S",
        settings="m = 100, n = 10,000, ε = 1, |S| = 1 to 100; E_S is ε with S and 2ε elsewhere",
        make=xiang.figure_1b,
        findings=xiang.figure_1b_found,
        rows=xiang.figure_1b_rows,
        draw=xiang.draw,
    ),
    Exhibit(
        paper="xiang",
        edition="full version",
        label="Figure 2",
        title="Squared error of single values and ranges, and the bound",
        settings=f"{_ZIPF}, D = 5 and 6. The axis of ε is not in the text at hand: 0.5 to 3",
        make=xiang_ranges.simulated((5, 6)),
        findings=xiang_ranges.below_the_bound,
        rows=xiang_ranges.rows_of_points,
        draw=xiang_ranges.draw_points,
    ),
    Exhibit(
        paper="xiang",
        edition="full version",
        label="Section 3.3",
        title="Scales and total error of all ranges from prefixes",
        settings="the optimal scales of L_m for all ranges, n = 10,000; lines of 8 to 256 cells",
        make=xiang.ranges,
        findings=xiang.ranges_found,
        rows=xiang.ranges_rows,
    ),
    Exhibit(
        paper="xiang",
        edition="full version",
        label="Table 1",
        title="Space and time of the collector, as measured growth",
        settings="D = 2, the published thermometer; exponents of m, n and |R| from measurements",
        make=xiang_ranges.costs,
        findings=xiang_ranges.costs_found,
        rows=xiang_ranges.costs_rows,
        draw=xiang_ranges.draw_costs,
    ),
    Exhibit(
        paper="xiang",
        edition="full version",
        label="Table 2",
        title="Errors by method, as growth in m and ε",
        settings="exact variances of the range of all but the outermost cells (of a prefix for "
        "quantiles), people spread evenly: binary trees under ε-LDP, Haney et al. extended, "
        "and the thermometer; ε = 1 for growth in m",
        make=xiang_ranges.errors,
        findings=xiang_ranges.errors_found,
        rows=xiang_ranges.errors_rows,
        draw=xiang_ranges.draw_errors,
    ),
    Exhibit(
        paper="cormode",
        label="Figure 3",
        title="Branching, consistency and the length of a range",
        settings="ε = 1.1, N = 2^26, D = 2^8, 2^16 and 2^22, ranges of one length from evenly "
        "spaced starts; exact mean squared errors. TreeOLH has the variance of TreeOUE",
        make=cormode_figures.figure_3,
        findings=cormode_figures.figure_3_found,
        rows=cormode_figures.figure_3_rows,
        draw=cormode_figures.draw_figure_3,
    ),
    Exhibit(
        paper="cormode",
        label="Figure 4",
        title="Errors of ranges by ε",
        settings="N = 2^26, Cauchy data, ε = 0.2 to 1.4, D = 2^8 to 2^22; root mean squared errors "
        "× 1000, which the figure prints although it says mean squared; ranges begin at every "
        "2^7, 2^14 and 2^17 cells at D = 2^16, 2^20 and 2^22",
        make=cormode_figures.by_epsilon("ranges"),
        findings=cormode_figures.by_epsilon_found,
        rows=cormode_figures.by_epsilon_rows,
        draw=cormode_figures.draw_by_epsilon,
    ),
    Exhibit(
        paper="cormode",
        label="Figure 5",
        title="Errors of prefixes by ε",
        settings="as Figure 4, for prefixes",
        make=cormode_figures.by_epsilon("prefixes"),
        findings=cormode_figures.by_epsilon_found,
        rows=cormode_figures.by_epsilon_rows,
        draw=cormode_figures.draw_by_epsilon,
    ),
    Exhibit(
        paper="cormode",
        label="Figure 6",
        title="The centralised case: wavelets and trees with Laplace noise",
        settings="ε = 1, D = 2^8 to 2^11, all ranges; ε split over the levels, least squares",
        make=cormode_figures.figure_6,
        findings=cormode_figures.figure_6_found,
        rows=cormode_figures.figure_6_rows,
        draw=cormode_figures.draw_figure_6,
    ),
    Exhibit(
        paper="cormode",
        label="Figure 7",
        title="Relative error of heavy ranges, on real data",
        settings="ε = 1.1, D and N as in the paper's Figure 2, shares of people from other data "
        "sets; random ranges with at least x % of the people",
        make=cormode_data.figure_7,
        findings=cormode_data.figure_7_found,
        rows=cormode_data.figure_7_rows,
        draw=cormode_data.draw_figure_7,
        needs=tuple(source.file for source in cormode_data.SOURCES),
        adds="relative errors of heavy ranges on times of flights, answers and taxi trips, and on "
        "check-ins",
    ),
    Exhibit(
        paper="cormode",
        label="Figure 8",
        title="Deciles of real data",
        settings="ε = 1.1, D = 2^18, N = 2^21, shares of people from other data sets",
        make=cormode_data.figure_8,
        findings=cormode_data.figure_8_found,
        rows=cormode_data.figure_8_rows,
        draw=cormode_data.draw_figure_8,
        needs=(cormode_data.FLIGHTS, cormode_data.ANSWERS),
        adds="value and quantile errors of deciles on times of flights and answers",
    ),
    Exhibit(
        paper="acharya",
        label="Figure 1",
        title="Error region of a test between two values",
        settings="E = 1 and 2, 1/2 and ∞, 1 and 1; corners by (7) and (8), and by the best channel",
        make=acharya.figure_1,
        findings=acharya.figure_1_found,
        rows=acharya.figure_1_rows,
        draw=acharya.draw_figure_1,
    ),
    Exhibit(
        paper="acharya",
        label="Figure 2",
        title="Error of whole distributions, plain and in blocks",
        settings="k = 1,000, ε = 1, n = 1,000 to 512,000, four populations, 20 runs; estimates are "
        "projected onto the simplex",
        make=acharya.make_figure_2,
        findings=acharya.figure_2_found,
        rows=acharya.figure_2_rows,
        draw=acharya.draw_figure_2,
    ),
    Exhibit(
        paper="acharya",
        label="Figure 3",
        title="Check-ins on the map",
        settings="25 to 50° N, 130 to 60° W, cells of 0.2°; a reconstruction of the check-ins",
        make=acharya.figure_3,
        findings=acharya.figure_3_found,
        rows=acharya.figure_3_rows,
        draw=acharya.draw_figure_3,
        needs=(acharya.DATA,),
        adds="the number of check-ins and their map",
    ),
    Exhibit(
        paper="acharya",
        label="Table 1",
        title="Error of the distribution of check-ins, plain and in blocks",
        settings="43,750 cells, ε not stated: 1, and the one that fits the plain column; a "
        "reconstruction of the check-ins, whose totals of coarse cells are true",
        make=acharya.make_table_1,
        findings=acharya.table_1_found,
        rows=acharya.table_1_rows,
        needs=(acharya.DATA,),
        adds="the error of 3.67 million check-ins on 43,750 cells, plain and in blocks",
    ),
    Exhibit(
        paper="kamalaruban",
        label="Figure 2",
        title="Improvement by a metric: single queries and several",
        settings="50 random places in a square of side 100, Euclidean E; 1,000 single queries, 100 "
        "matrices of 1 to 10 queries",
        make=kamalaruban.make_figure_2,
        findings=kamalaruban.figure_2_found,
        rows=kamalaruban.figure_2_rows,
        draw=kamalaruban.picture_2,
    ),
    Exhibit(
        paper="kamalaruban",
        label="Figure 3",
        title="Improvement by a metric: US cities",
        settings="cities above 50,000 people, E by latitude and longitude; 1,000 random queries",
        make=kamalaruban.make_figure_3,
        findings=kamalaruban.figure_3_found,
        rows=kamalaruban.figure_3_rows,
        draw=kamalaruban.picture_3,
        needs=(kamalaruban.DATA,),
        adds="improvement factors of random queries and of the mean elevation over US cities",
    ),
    Exhibit(
        paper="kamalaruban",
        label="Figure 4",
        title="Blowfish privacy: mean error by threshold",
        settings="the places of Figure 2, 1,000 single queries, thresholds 2, 4, 8 and 16, closed "
        "under shortest paths",
        make=kamalaruban.make_blowfish,
        findings=kamalaruban.figure_4_found,
        rows=kamalaruban.blowfish_rows,
        draw=kamalaruban.draw_blowfish,
    ),
    Exhibit(
        paper="kamalaruban",
        label="Figure 5",
        title="Blowfish privacy: improvement by threshold",
        settings="as Figure 4, at ε = 1",
        make=kamalaruban.make_blowfish,
        findings=kamalaruban.figure_5_found,
        rows=kamalaruban.blowfish_rows,
        draw=kamalaruban.draw_blowfish,
    ),
)
