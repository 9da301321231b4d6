// Checks the named compiler options that a host passes with a program, as in `jax.jit(f, compiler_options={...})`.
#ifndef BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_
#define BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_

#include "absl/status/status.h"
#include "core/ops/attribute_values.h"

namespace backplane {

// Checks `CompileOptions::env_option_overrides` for a backend without options of its own. Scripts of hosts pass options
// of XLA. Those that have a meaning here are read elsewhere. Returns InvalidArgument, with XLA's message, for which
// hosts search, for an unknown name and for a value of the wrong kind if the kind of the option is known. Unknown names
// that begin with xla_ are accepted, because compilers for other machines have more options.
absl::Status CheckOptionNames(const StringMap& overrides);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_OPTION_NAMES_H_
