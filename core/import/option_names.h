// The options by name that a host sends along with a program, as in `jax.jit(f, compiler_options={...})`.
#ifndef BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_
#define BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_

#include "absl/status/status.h"
#include "core/ops/attribute_values.h"

namespace backplane {

// For a backend's Compile, of `CompileOptions::env_option_overrides`, where the backend has no names of its own: hosts'
// scripts bring XLA's options along, and those with a meaning here are read where they have it. Any other name is a
// slip of the pen, and so is a value of the wrong kind for an option whose kind is known: InvalidArgument, with XLA's
// words, which hosts look for. Names that begin with xla_ and are in no list pass: compilers for other machines have
// more of them.
absl::Status CheckOptionNames(const StringMap& overrides);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_
