"""Examples for the help of every command, in one place so that they tell one story."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "new": (
        "sfumato new commute.toml",
        "sfumato new commute.toml \\",
        '  --axis "age: integers 0..99, distance 0.2" \\',
        '  --axis "income: reals 0..200000 in 64, distance 1 per 10000" \\',
        '  --axis "region: categories north|south|east, uniform 1, optional" \\',
        '  --axis "visit: dates 2024-01-01..2024-12-29 by 1 week, distance 1 per week" \\',
        '  --axis "pickup: times 00:00..24:00 by 15 min, distance 1 per hour"',
        'sfumato new rating.toml --axis "rating: integers 1..8, distance 0.3" --people 1000',
        'sfumato new trips.toml --protect "uniform 1" --mechanism "hierarchical branching=2" \\',
        '  --axis "hour: integers 0..23" --axis "zone: integers 0..63"',
    ),
    "explain": ("sfumato explain commute.toml", "sfumato explain commute.toml --json"),
    "plan": (
        "sfumato plan commute.toml --people 100000",
        'sfumato plan commute.toml --people 100000 --ask "age=18..30" --want 0.005',
        "sfumato plan commute.toml --people 100000 --prior counts.csv --plot plan.png",
        "sfumato plan commute.toml --people 10000 --method likelihood",
    ),
    "compare": (
        "sfumato compare commute.toml --people 100000 --method unbiased",
        "sfumato compare commute.toml --people 10000 --json",
    ),
    "audit": ("sfumato audit commute.toml", "sfumato audit commute.toml --json"),
    "encode": (
        "sfumato encode commute.toml people.csv --out reports.parquet",
        "sfumato encode commute.toml people.csv.gz --out reports.parquet --force",
    ),
    "tally": (
        "sfumato tally commute.toml monday.parquet tuesday.parquet --out tally.parquet",
        "sfumato tally commute.toml tally.parquet wednesday.parquet --out all.parquet",
    ),
    "ask": (
        'sfumato ask commute.toml tally.parquet "age=18..30, region=north|south"',
        'sfumato ask commute.toml tally.parquet "age=65.." --where region=north --fraction',
        "sfumato ask commute.toml tally.parquet --mean income --level 0.99",
    ),
    "quantile": (
        "sfumato quantile commute.toml tally.parquet age",
        "sfumato quantile commute.toml tally.parquet age 0.1 0.5 0.9 --where region=north",
    ),
    "histogram": (
        "sfumato histogram commute.toml tally.parquet age --bins 10",
        "sfumato histogram commute.toml tally.parquet age --plot age.html",
    ),
    "heatmap": (
        "sfumato heatmap commute.toml tally.parquet age region --bins 10",
        "sfumato heatmap commute.toml tally.parquet age income --plot map.png",
    ),
    "release": (
        "sfumato release commute.toml people.csv --ledger commute.ledger --spend 1/4 \\",
        '  --ask "age=18..30" --ask "age=65.., region=north"',
        "sfumato release commute.toml people.csv --ledger commute.ledger --spend age=1/8 \\",
        '  --workload "ranges of age" --strategy prefix --out ages.json',
        "sfumato release commute.toml people.csv --ledger commute.ledger --spend 1/8 --mean age",
        'sfumato release commute.toml people.csv --spend 1/4 --workload "2-way" --plan',
    ),
    "ledger": (
        "sfumato ledger new commute.ledger commute.toml",
        "sfumato ledger new commute.ledger commute.toml --total 2",
        "sfumato ledger show commute.ledger",
    ),
    "simulate": (
        "sfumato simulate commute.toml people.csv --seed 7 --out tally.parquet",
        'sfumato simulate commute.toml --counts counts.csv --seed 7 --ask "age=18..30"',
    ),
    "demo": ("sfumato demo", "sfumato demo --out tour --people 20000 --seed 7"),
}
