#include "sdk/shim/compile_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "core/types/status_macros.h"
#include "sdk/backend/build_id.h"
#include "sdk/backend/topology_bytes.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

constexpr char kFolderOption[] = "compile_cache_directory", kLimitOption[] = "compile_cache_limit_bytes";
constexpr char kFolderVariable[] = "BACKPLANE_COMPILE_CACHE_DIRECTORY",
               kLimitVariable[] = "BACKPLANE_COMPILE_CACHE_LIMIT_BYTES";

// The environment variables of ours, but not those of the cache itself.
std::string RelevantEnvironment() {
  std::vector<std::string> variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const absl::string_view variable(*at);
    if (absl::StartsWith(variable, "BACKPLANE_") && !absl::StartsWith(variable, "BACKPLANE_COMPILE_CACHE_"))
      variables.emplace_back(variable);
  }
  std::sort(variables.begin(), variables.end());
  return absl::StrJoin(variables, "\n");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CompileCache>> TakeCompileCache(NamedValues* options) {
  std::string folder;
  int64_t limit = CompileCache::kDefaultLimitBytes;
  if (const char* text = std::getenv(kFolderVariable); text != nullptr) folder = text;
  if (const char* text = std::getenv(kLimitVariable); text != nullptr && *text != 0) {
    if (!absl::SimpleAtoi(text, &limit) || limit < 1)
      return absl::InvalidArgumentError(absl::StrCat(kLimitVariable, ": must be a number of bytes, at least 1"));
  }
  if (auto node = options->extract(kFolderOption); !node.empty()) {
    const auto* text = std::get_if<std::string>(&node.mapped());
    if (text == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("create option ", kFolderOption, ": must be a text"));
    folder = *text;
  }
  if (auto node = options->extract(kLimitOption); !node.empty()) {
    const std::optional<int64_t> bytes = ReadInteger(node.mapped());
    if (!bytes.has_value() || *bytes < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("create option ", kLimitOption, ": must be a number of bytes, at least 1"));
    }
    limit = *bytes;
  }
  if (folder.empty()) return std::shared_ptr<const CompileCache>();
  ASSIGN_OR_RETURN(std::shared_ptr<CompileCache> cache, CompileCache::Open(std::move(folder), limit));
  return std::shared_ptr<const CompileCache>(std::move(cache));
}

std::string CompileCacheKey(const ProgramBytes& program, const CompileOptions& options, const Topology& topology) {
  CompileOptions known = options;
  // A backend that takes the bytes of programs may know more of the options than we do.
  const bool takes_bytes = Plugin().backend->AcceptsProgramBytes(program.format);
  if (!takes_bytes) known.serialized.clear();  // so that the members are written
  if (HasTransformations() || CallsHostWhenPartitioned(program.bytes)) return "";
  if (BuildId() == "none") return "";  // another build's code could not be told from this one's
  return absl::StrCat("program ", program.format, " ", program.bytes.size(), " ", Digest::ComputeHex(program.bytes),
                      "\noptions ", Digest::ComputeHex(SerializeCompileOptions(known)), "\nplatform ",
                      topology.platform_version, "\ntopology ", Digest::ComputeHex(SerializeTopology(topology)),
                      "\nbuild ", BuildId(), "\nenvironment ", RelevantEnvironment());
}

}  // namespace backplane::shim
