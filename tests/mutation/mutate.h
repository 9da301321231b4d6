// Mutates inputs at random, in the same way for the same seed on every machine.
#ifndef BACKPLANE_TESTS_MUTATION_MUTATE_H_
#define BACKPLANE_TESTS_MUTATION_MUTATE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace backplane::mutation {

// Applies one to eight changes to one of `seeds`. For bytes: flipped bits, interesting values, runs that are removed,
// duplicated, moved or taken from another seed, huge lengths and varints, truncation. With `text` mostly whole tokens:
// numbers become limits, names and types are swapped, brackets open ten thousand times, lines are removed, duplicated
// and moved. Returns at most 1 MiB.
std::string Mutate(const std::vector<std::string>& seeds, bool text, uint64_t seed);

}  // namespace backplane::mutation

#endif  // BACKPLANE_TESTS_MUTATION_MUTATE_H_
