#include "plugins/hip/backend/executable.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/fnv.h"
#include "core/import/option_names.h"
#include "core/types/status_macros.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/report/code_text.h"
#include "sdk/backend/build_id.h"
#include "sdk/backend/launch_outputs.h"
#include "sdk/backend/serialized_executable.h"
#include "sdk/codegen/accuracy.h"

namespace backplane::hip {
namespace {

constexpr absl::string_view kStoredBy = "backplane hip";

std::string StoredTarget(const std::string& target) { return absl::StrCat(target, "; build ", BuildId()); }

}  // namespace

absl::StatusOr<std::shared_ptr<Executable>> HipExecutable::Create(std::unique_ptr<GpuProgram> program,
                                                                  std::string target, CompileOptions options,
                                                                  NamedValues cost, std::string fingerprint,
                                                                  CustomCallRegistry& registry,
                                                                  std::vector<std::string> log) {
  std::shared_ptr<HipExecutable> out(new HipExecutable);
  out->program_ = std::move(program);
  out->target_ = std::move(target);
  out->options_ = std::move(options);
  out->cost_ = std::move(cost);
  out->fingerprint_ = std::move(fingerprint);
  {
    MutexLock lock(out->mu_);
    out->log_ = std::move(log);
  }
  ASSIGN_OR_RETURN(out->signature_, DescribeEntry(out->program_->module(), LayoutSource::kEntry));
  out->signature_.SetAliases(out->program_->assignment().output_alias);
  ASSIGN_OR_RETURN(out->custom_calls_, mixed::CustomCalls::Create(out->program_->module(), registry));
  ASSIGN_OR_RETURN(out->collectives_, mixed::Collectives::Create(out->program_->module()));
  return std::shared_ptr<Executable>(std::move(out));
}

CompiledMemoryStats HipExecutable::memory_stats() const {
  CompiledMemoryStats m = ComputeEntryMemoryStats(signature_);
  m.generated_code = code_size();
  m.temp = program_->temporary_bytes();
  m.total = m.argument + m.output - m.alias + m.temp + m.generated_code;
  m.peak = m.argument + m.output - m.alias + m.temp;
  return m;
}

std::string HipExecutable::compile_log() const {
  MutexLock lock(mu_);
  return absl::StrCat(absl::StrJoin(log_, "\n"), "\n");
}

void HipExecutable::AddToLog(absl::Span<const std::string> lines) const {
  constexpr size_t kMaxLines = 100'000;
  MutexLock lock(mu_);
  for (const std::string& line : lines) {
    if (log_.size() < kMaxLines && std::find(log_.begin(), log_.end(), line) == log_.end()) log_.push_back(line);
  }
}

absl::StatusOr<std::string> HipExecutable::PrintCode(absl::string_view form) const {
  ASSIGN_OR_RETURN(const GpuTarget gpu, FindGpuTarget(target_));
  return MakeCodeText(program_->module(), gpu, program_->image(), form);
}

absl::StatusOr<std::string> HipExecutable::Serialize() const {
  ExecutableWriter writer(kStoredBy, StoredTarget(target_));
  writer.AddBytes(fingerprint_);
  writer.AddOptions(options_);
  writer.AddCost(cost_);
  RETURN_IF_ERROR(writer.AddModule(program_->module()));
  writer.AddBytes(program_->image().bytes);
  writer.AddPlain(Fnv1a64(program_->image().bytes));
  return std::move(writer).Take();
}

absl::StatusOr<std::shared_ptr<Executable>> CompileForGpu(std::unique_ptr<Module> module, const std::string& target,
                                                          const CompileOptions& options, CustomCallRegistry& registry) {
  RETURN_IF_ERROR(CheckOptionNames(options.env_option_overrides));
  ASSIGN_OR_RETURN(const GpuTarget gpu, FindGpuTarget(target));
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  RETURN_IF_ERROR(codegen::CheckAccuracy(*module, gpu.ir.has_fma));
  std::string fingerprint = absl::StrCat(module->Fingerprint(), "-", target, "-", BuildId());
  std::vector<std::string> log;
  NamedValues cost;
  RETURN_IF_ERROR(RunGpuPipeline(module.get(), options, &cost, &log, gpu));
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(std::unique_ptr<GpuProgram> program, GpuProgram::Build(std::move(module), gpu, nullptr, &log));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log.push_back(absl::StrFormat("buffers, code and steps: %.2f ms", took.count()));
  for (const KernelResources& k : program->image().kernels) {
    log.push_back(absl::StrCat("kernel ", k.name, ": ", k.threads, " threads, ", k.shared_bytes,
                               " bytes of shared memory, ", k.vgprs, " vector registers, ", k.sgprs,
                               " scalar registers, ", k.spilled_registers, " spilled"));
  }
  return HipExecutable::Create(std::move(program), target, options, std::move(cost), std::move(fingerprint), registry,
                               std::move(log));
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeForGpu(absl::string_view bytes, const std::string& target,
                                                              CustomCallRegistry& registry) {
  ASSIGN_OR_RETURN(const GpuTarget gpu, FindGpuTarget(target));
  ASSIGN_OR_RETURN(ExecutableReader reader, ExecutableReader::Open(bytes, kStoredBy, StoredTarget(target)));
  ASSIGN_OR_RETURN(absl::string_view fingerprint, reader.ReadBytes("fingerprint"));
  ASSIGN_OR_RETURN(CompileOptions options, reader.ReadOptions());
  ASSIGN_OR_RETURN(NamedValues cost, reader.ReadCost());
  ASSIGN_OR_RETURN(std::unique_ptr<Module> module, reader.ReadModule("program", options));
  ASSIGN_OR_RETURN(absl::string_view code, reader.ReadBytes("kernels"));
  uint64_t hash = 0;
  RETURN_IF_ERROR(reader.ReadPlain("hash of the kernels", &hash));
  RETURN_IF_ERROR(reader.CheckAtEnd());
  // The runtime follows the offsets in an image without knowing its size.
  if (hash != Fnv1a64(code)) return absl::InvalidArgumentError("stored executable: its kernels are damaged");
  const Image image{std::string(code), {}};
  std::vector<std::string> log = {"loaded from serialized form"};
  ASSIGN_OR_RETURN(std::unique_ptr<GpuProgram> program, GpuProgram::Build(std::move(module), gpu, &image, &log));
  return HipExecutable::Create(std::move(program), target, std::move(options), std::move(cost),
                               std::string(fingerprint), registry, std::move(log));
}

}  // namespace backplane::hip
