#include "sdk/backend/serialized_executable.h"

#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr absl::string_view kFormatMagic = "BPEXEC\r\n";
constexpr uint32_t kFormatVersion = 1;

absl::Status InvalidField(absl::string_view what, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", what, " ", problem));
}

}  // namespace

ExecutableWriter::ExecutableWriter(absl::string_view backend, absl::string_view target) : out_(kFormatMagic) {
  AddPlain(kFormatVersion);
  AddBytes(backend);
  AddBytes(target);
}

void ExecutableWriter::AddBytes(absl::string_view bytes) {
  const uint64_t size = bytes.size();
  out_.append(reinterpret_cast<const char*>(&size), sizeof size);
  out_.append(bytes.data(), bytes.size());
}

absl::Status ExecutableWriter::AddModule(const Module& module) {
  ASSIGN_OR_RETURN(std::string bytes, SerializeHloModule(module));
  AddBytes(bytes);
  return absl::OkStatus();
}

void ExecutableWriter::AddOptions(const CompileOptions& options) { AddBytes(SerializeCompileOptions(options)); }

void ExecutableWriter::AddCost(const NamedValues& cost) {
  uint64_t count = 0;
  for (const auto& [name, value] : cost) count += std::holds_alternative<float>(value);
  AddPlain(count);
  for (const auto& [name, value] : cost) {
    const float* number = std::get_if<float>(&value);
    if (number == nullptr) continue;
    AddBytes(name);
    AddPlain(*number);
  }
}

absl::StatusOr<ExecutableReader> ExecutableReader::Open(absl::string_view bytes, absl::string_view backend,
                                                        absl::string_view target) {
  if (bytes.substr(0, kFormatMagic.size()) != kFormatMagic) {
    return absl::FailedPreconditionError("serialized executable: does not begin as one");
  }
  ExecutableReader reader(bytes.substr(kFormatMagic.size()));
  uint32_t version = 0;
  RETURN_IF_ERROR(reader.ReadPlain("format version", &version));
  if (version != kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("serialized executable: format ", version, ", expected ", kFormatVersion));
  }
  ASSIGN_OR_RETURN(absl::string_view made_by, reader.ReadBytes("backend"));
  if (made_by != backend) {
    return absl::FailedPreconditionError(
        absl::StrCat("serialized executable: made by ", made_by, ", this is ", backend));
  }
  ASSIGN_OR_RETURN(absl::string_view made_for, reader.ReadBytes("target"));
  if (made_for != target) {
    return absl::FailedPreconditionError(
        absl::StrCat("serialized executable: compiled for ", made_for, ", this is ", target));
  }
  return reader;
}

absl::StatusOr<absl::string_view> ExecutableReader::ReadBytes(absl::string_view what) {
  uint64_t size = 0;
  if (rest_.size() < sizeof size) return InvalidField(what, "is missing");
  std::memcpy(&size, rest_.data(), sizeof size);
  rest_.remove_prefix(sizeof size);
  if (size > rest_.size()) {
    return InvalidField(what, absl::StrCat("has ", size, " bytes, of which ", rest_.size(), " are there"));
  }
  const absl::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

absl::Status ExecutableReader::ReadExactly(absl::string_view what, void* to, size_t size) {
  ASSIGN_OR_RETURN(absl::string_view bytes, ReadBytes(what));
  if (bytes.size() != size) return InvalidField(what, absl::StrCat("has ", bytes.size(), " bytes, expected ", size));
  std::memcpy(to, bytes.data(), size);
  return absl::OkStatus();
}

absl::StatusOr<CompileOptions> ExecutableReader::ReadOptions() {
  ASSIGN_OR_RETURN(absl::string_view bytes, ReadBytes("options"));
  return ParseCompileOptions(bytes);
}

absl::StatusOr<std::unique_ptr<Module>> ExecutableReader::ReadModule(absl::string_view what,
                                                                     const CompileOptions& options) {
  ASSIGN_OR_RETURN(absl::string_view bytes, ReadBytes(what));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, ParseHloModuleProto(bytes));
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  return module;
}

absl::StatusOr<NamedValues> ExecutableReader::ReadCost() {
  uint64_t count = 0;
  RETURN_IF_ERROR(ReadPlain("number of costs", &count));
  NamedValues cost;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(absl::string_view name, ReadBytes("name of a cost"));
    float value = 0;
    RETURN_IF_ERROR(ReadPlain(name, &value));
    cost[std::string(name)] = value;
  }
  return cost;
}

absl::Status ExecutableReader::CheckAtEnd() const {
  if (rest_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", rest_.size(), " bytes too many"));
}

}  // namespace backplane
