// Compiles an imported module for the machine, and serializes and deserializes executables.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/array_lowering.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "plugins/tpu_emulator/plugin/resolve_bitcasts.h"
#include "plugins/tpu_emulator/program/keep_entry_tiled.h"
#include "plugins/tpu_emulator/program/prepare.h"
#include "plugins/tpu_emulator/program/schedule_cost.h"
#include "plugins/tpu_emulator/report/report_folder.h"
#include "sdk/backend/host_copy.h"
#include "sdk/backend/serialized_executable.h"
#include "sdk/codegen/accuracy.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/backend/pipeline.h"
#include "sdk/engine/jit/host.h"

namespace backplane::tpu {
namespace {

TileShape GetTileShape(const Machine& machine) { return {machine.tile_rows, machine.tile_lanes}; }

// Gives every array leaf a layout: the requested one; tiles in the requested order; or the machine's default layout.
Shape WithMachineLayouts(const Shape& shape, const Shape* asked, TileShape tile) {
  if (shape.IsTuple()) {
    std::vector<Shape> elements;
    for (int64_t i = 0; i < shape.tuple_size(); ++i) {
      const bool has = asked != nullptr && asked->IsTuple() && asked->tuple_size() == shape.tuple_size();
      elements.push_back(WithMachineLayouts(shape.tuple_shapes(i), has ? &asked->tuple_shapes(i) : nullptr, tile));
    }
    return Shape::Tuple(std::move(elements));
  }
  if (!shape.IsArray()) return shape;
  Shape out = shape.WithoutLayout();
  const bool given = asked != nullptr && asked->IsArray() && asked->has_layout();
  if (given && !asked->layout().tiles.empty()) {
    out.set_layout(asked->layout());
  } else if (given) {
    out.set_layout(TiledLayout(shape.element_type(), shape.dimensions(), asked->layout().minor_to_major, tile));
  } else {
    out.set_layout(DefaultLayout(shape.element_type(), shape.dimensions(), tile));
  }
  return out;
}

// Runs after partitioning: the layouts are those of the shards.
void SetEntryLayouts(Module* module, TileShape tile) {
  ModuleConfig& config = module->config();
  const Computation* entry = module->entry();
  std::vector<Shape> parameters;
  for (size_t i = 0; i < entry->parameters().size(); ++i) {
    const Shape* asked = i < config.parameter_layouts.size() ? &config.parameter_layouts[i] : nullptr;
    parameters.push_back(WithMachineLayouts(entry->parameter(static_cast<int64_t>(i))->shape(), asked, tile));
  }
  config.parameter_layouts = std::move(parameters);
  config.result_layout = WithMachineLayouts(entry->root()->shape(), &config.result_layout, tile);
}

int64_t SumStorageBytes(const Shape& shape) {
  int64_t bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    bytes += static_cast<int64_t>(StorageBytes(leaf));
  });
  return bytes;
}

// Arguments, results and aliases have their padded sizes. The rest of the peak is temporary.
CompiledMemoryStats ComputeMemoryStats(const Module& kernels, int64_t peak) {
  const ModuleConfig& config = kernels.config();
  CompiledMemoryStats m;
  for (const Shape& shape : config.parameter_layouts) m.argument += SumStorageBytes(shape);
  m.output = SumStorageBytes(config.result_layout);
  for (const InputOutputAlias& a : config.input_output_aliases) {
    ForEachLeaf(config.result_layout, [&](const Shape& leaf, const std::vector<int64_t>& index) {
      if (Ints(index.begin(), index.end()) == a.output_index) m.alias += static_cast<int64_t>(StorageBytes(leaf));
    });
  }
  const int64_t resident = m.argument + m.output - m.alias;
  m.peak = std::max(peak, resident);
  m.temp = m.peak - resident;
  return m;
}

// Logs the milliseconds since the last call.
class Stopwatch {
 public:
  void LogElapsed(absl::string_view what, std::vector<std::string>* log) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> took = now - last_;
    log->push_back(absl::StrFormat("%s: %.2f ms", what, took.count()));
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::string HostVersion(const std::string& version) {
  return absl::StrCat(version, "; host ", engine::jit::ComputeHostFingerprint());
}

}  // namespace

absl::StatusOr<std::shared_ptr<Executable>> CompileForMachine(std::unique_ptr<Module> module,
                                                              const CompileOptions& options,
                                                              const EmulatorOptions& chosen,
                                                              CustomCallRegistry* custom_calls) {
  std::vector<std::string> log;
  Stopwatch watch;
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  RETURN_IF_ERROR(codegen::CheckAccuracy(*module, engine::jit::Host().target.has_fma));
  EmulatorProgramFacts facts;
  facts.options = options;
  facts.version = ComputeVersion(chosen);
  facts.fingerprint = absl::StrCat(module->Fingerprint(), "-", HostVersion(facts.version));
  RETURN_IF_ERROR(compiler::PartitionForDevices(module.get(), options, &log));
  RETURN_IF_ERROR(engine::SimplifyForEngine(module.get(), &log));
  RETURN_IF_ERROR(RunPass(ResolveBitcasts(), module.get()).status());
  SetEntryLayouts(module.get(), GetTileShape(chosen.machine));
  watch.LogElapsed("partitioning, simplification", &log);
  PrepareOptions prepare;
  prepare.round = chosen.round;
  prepare.f64 = chosen.f64;
  prepare.torus = chosen.torus;
  Schedule rejected;
  if (!chosen.report.empty()) prepare.rejected_schedule = &rejected;
  absl::StatusOr<PreparedProgram> prepared = PrepareProgram(std::move(module), chosen.machine, prepare);
  const ReportFacts report_facts{chosen.device_count(), absl::StrJoin(chosen.torus, "x")};
  if (!prepared.ok()) {
    // Write a report of a program that does not fit, too. The error to return is the compiler's in any case.
    if (rejected.refusal) WriteReport(chosen.report, rejected, chosen.machine, report_facts).status().IgnoreError();
    return prepared.status();
  }
  PreparedProgram program = *std::move(prepared);
  facts.cost = ScheduleCost(program.schedule);
  facts.memory = ComputeMemoryStats(*program.kernels, program.plan.peak_bytes);
  watch.LogElapsed("kernel fusion, layouts, rounding, timing", &log);
  if (!chosen.report.empty()) {
    const absl::StatusOr<ReportFiles> report =
        WriteReport(chosen.report, program.schedule, chosen.machine, report_facts);
    log.push_back(report.ok() ? absl::StrCat("report: ", report->json)
                              : absl::StrCat("report: ", report.status().message()));
    if (report.ok()) facts.runs = std::make_shared<RunCounter>(*report);
    watch.LogElapsed("report", &log);
  }
  if (!compiler::IsFullyInterpreted(*program.executable)) {
    const ModuleConfig& laid_out = program.kernels->config();
    KeepEntryTiled(program.executable.get(), laid_out.parameter_layouts, laid_out.result_layout, &log);
  }
  const ArrayLowering lowering(chosen.machine.array_side);
  RETURN_IF_ERROR(engine::LowerForEngine(program.executable.get(), &lowering, &log));
  watch.LogElapsed("engine passes", &log);
  return EmulatorExecutable::Build(std::move(program.executable), std::move(program.kernels), std::move(facts),
                                   chosen.machine.array_side, custom_calls, nullptr, std::move(log));
}

// Fields: options, fingerprint, cost, memory, both modules, and one for each object of machine code.
absl::StatusOr<std::string> EmulatorExecutable::Serialize() const {
  ExecutableWriter writer(facts_.version, engine::DescribeCodeTarget());
  writer.AddOptions(facts_.options);
  writer.AddBytes(facts_.fingerprint);
  writer.AddCost(facts_.cost);
  writer.AddPlain(facts_.memory);
  RETURN_IF_ERROR(writer.AddModule(*kernels_));
  RETURN_IF_ERROR(writer.AddModule(program_->module()));
  for (const engine::jit::ObjectCode& o : program_->objects()) writer.AddBytes(o.bytes);
  return std::move(writer).Take();
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeForMachine(absl::string_view bytes,
                                                                  const EmulatorOptions& chosen,
                                                                  CustomCallRegistry* custom_calls) {
  EmulatorProgramFacts facts;
  facts.version = ComputeVersion(chosen);
  ASSIGN_OR_RETURN(ExecutableReader reader, ExecutableReader::Open(bytes, facts.version, engine::DescribeCodeTarget()));
  ASSIGN_OR_RETURN(facts.options, reader.ReadOptions());
  ASSIGN_OR_RETURN(absl::string_view fingerprint, reader.ReadBytes("fingerprint"));
  facts.fingerprint = std::string(fingerprint);
  ASSIGN_OR_RETURN(facts.cost, reader.ReadCost());
  RETURN_IF_ERROR(reader.ReadPlain("memory statistics", &facts.memory));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> kernels, reader.ReadModule("kernels", facts.options));
  ASSIGN_OR_RETURN(std::unique_ptr<Module> lowered, reader.ReadModule("program", facts.options));
  std::vector<engine::jit::ObjectCode> objects;
  while (!reader.AtEnd()) {
    ASSIGN_OR_RETURN(absl::string_view object, reader.ReadBytes("object code"));
    objects.push_back({std::string(object)});
  }
  return EmulatorExecutable::Build(std::move(lowered), std::move(kernels), std::move(facts), chosen.machine.array_side,
                                   custom_calls, &objects, {"loaded from serialized form"});
}

}  // namespace backplane::tpu
