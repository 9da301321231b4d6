// The compile cache of clients and topologies: options that the shim takes for all plugins.
//
//   compile_cache_directory    a folder (sdk/backend/compile_cache.h); no cache if it is not given
//   compile_cache_limit_bytes  the bound for all entries together; 4 GiB by default
//
// For hosts that pass no options the environment variables BACKPLANE_COMPILE_CACHE_DIRECTORY and
// BACKPLANE_COMPILE_CACHE_LIMIT_BYTES say the same. A backend does not see the options.
//
// The key of an entry is the program as the host passed it, the compile options (what we know of them: hosts write
// equal options as different bytes, because they write maps in any order), the topology with the platform's version and
// attributes, the build of the plugin, and the environment variables BACKPLANE_*, which may influence a compilation. A
// program is compiled as if there were no cache, and is not stored, if functions of the host take part in its
// compilation: transformations of programs, custom partitioners.
#ifndef BACKPLANE_SDK_SHIM_COMPILE_CACHE_H_
#define BACKPLANE_SDK_SHIM_COMPILE_CACHE_H_

#include <memory>
#include <string>

#include "sdk/backend/backend.h"
#include "sdk/backend/compile_cache.h"

namespace backplane::shim {

// Removes the options of the cache from `options` and opens the cache that they name; null if they name none.
absl::StatusOr<std::shared_ptr<const CompileCache>> TakeCompileCache(NamedValues* options);

// Returns the key of a compilation; empty if its result must not be stored.
std::string CompileCacheKey(const ProgramBytes& program, const CompileOptions& options, const Topology& topology);

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_COMPILE_CACHE_H_
