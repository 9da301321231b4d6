// The options by name that a host sends along with a program, as in `jax.jit(f, compiler_options={...})`.
#ifndef BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_
#define BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_

#include "absl/status/status.h"
#include "core/ops/attribute_values.h"

namespace backplane {

// Checks `CompileOptions::env_option_overrides` for a backend that has no options of its own. Hosts' scripts pass XLA's
// options; those with a meaning here are read elsewhere. An unknown name is InvalidArgument, and so is a value of the
// wrong kind for an option whose kind is known; the message is XLA's, which hosts look for. An unknown name that begins
// with xla_ is accepted: compilers for other machines have more of them.
absl::Status CheckOptionNames(const StringMap& overrides);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_
