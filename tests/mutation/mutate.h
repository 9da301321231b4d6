// Damages an input at random, the same way for the same seed on every machine.
#ifndef BACKPLANE_TESTS_MUTATION_MUTATE_H_
#define BACKPLANE_TESTS_MUTATION_MUTATE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace backplane::mutation {

// One to eight changes of one of `seeds`. Bytes: flipped bits, interesting values, runs that are cut, doubled, moved or
// taken from another seed, lengths and varints that grow absurd, truncation. With `text` mostly tokens: numbers become
// limits and beyond, names and types change places, brackets open ten thousand times, lines are cut, doubled and moved.
// At most 1 MiB comes out.
std::string Mutate(const std::vector<std::string>& seeds, bool text, uint64_t seed);

}  // namespace backplane::mutation

#endif  // BACKPLANE_TESTS_MUTATION_MUTATE_H_
