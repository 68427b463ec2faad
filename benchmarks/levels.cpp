// Noisy counts of levels of a tree by OUE, with the generators of the C++ standard library.
//
// Argument: the chance that an absent bit is told as present. Input, all 32-bit and again and again
// until it ends: how many nodes a level has, where its engine starts (0: where an engine starts by
// itself), and the people of every node. Output: the noisy counts, as 32-bit numbers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#ifndef __GLIBCXX__
#error "needs the standard library of GCC, whose generators the published program used"
#endif

int main(int, char **argument) {
    const float flipped = std::strtof(argument[1], nullptr);
    std::uint32_t head[2];
    while (std::fread(head, sizeof head, 1, stdin) == 1) {
        std::vector<std::uint32_t> people(head[0]), told(head[0]);
        if (std::fread(people.data(), sizeof people[0], people.size(), stdin) != people.size()) return 1;
        std::default_random_engine engine;
        if (head[1] != 0) engine.seed(head[1]);
        const auto everyone = std::accumulate(people.begin(), people.end(), std::uint32_t(0));
        for (std::size_t node = 0; node < people.size(); ++node) {
            std::binomial_distribution<std::uint32_t> here(people[node], 0.5);
            std::binomial_distribution<std::uint32_t> elsewhere(everyone - people[node], flipped);
            told[node] = here(engine);
            told[node] += elsewhere(engine);
        }
        std::fwrite(told.data(), sizeof told[0], told.size(), stdout);
    }
}
