#include "sdk/shim/dump.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/wire.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"

namespace backplane::shim {
namespace {

constexpr size_t kMaxName = 120;  // longest module name in a file name

std::string Option(const CompileOptions& options, const std::string& name) {
  auto at = options.env_option_overrides.find(name);
  return at == options.env_option_overrides.end() ? "" : at->second;
}

bool IsOptionEnabled(const CompileOptions& options, const std::string& name) {
  const std::string value = absl::AsciiStrToLower(Option(options, name));
  return value == "true" || value == "1";
}

// Replaces all characters except letters, digits and a few signs, because the name comes from the host's user.
std::string SafeName(const std::string& name) {
  std::string safe = name.substr(0, kMaxName);
  for (char& c : safe) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  }
  return safe;
}

absl::Status Write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("xla_dump_to: ", path.string(), ": cannot be written"));
}

}  // namespace

absl::Status DumpProgram(const Executable& executable, const CompileOptions& options, absl::string_view platform) {
  const std::string folder = Option(options, "xla_dump_to");
  if (folder.empty() || executable.optimized_module() == nullptr) return absl::OkStatus();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return absl::InvalidArgumentError(absl::StrCat("xla_dump_to: ", folder, ": ", failed.message()));
  static std::atomic<int> count{0};
  const Module& module = *executable.optimized_module();
  const std::filesystem::path stem =
      std::filesystem::path(folder) / absl::StrFormat("module_%04d.%s.%s_after_optimizations", count.fetch_add(1),
                                                      SafeName(module.name()), std::string(platform));
  const bool proto = IsOptionEnabled(options, "xla_dump_hlo_as_proto");
  if (!proto || IsOptionEnabled(options, "xla_dump_hlo_as_text"))
    RETURN_IF_ERROR(Write(stem.string() + ".txt", module.ToString()));
  if (!proto) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string bytes, SerializeHloModule(module));
  WireWriter out;
  out.Bytes(1, bytes);  // HloProto.hlo_module
  return Write(stem.string() + ".hlo.pb", out.Take());
}

}  // namespace backplane::shim
