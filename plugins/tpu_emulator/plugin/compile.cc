// Compiles an imported module for the machine, and serializes and deserializes executables.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/array_lowering.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "plugins/tpu_emulator/plugin/resolve_bitcasts.h"
#include "plugins/tpu_emulator/program/keep_entry_tiled.h"
#include "plugins/tpu_emulator/program/prepare.h"
#include "plugins/tpu_emulator/program/schedule_cost.h"
#include "plugins/tpu_emulator/report/report_folder.h"
#include "sdk/backend/mixed/client.h"
#include "sdk/codegen/accuracy.h"
#include "sdk/engine/backend/pipeline.h"
#include "sdk/engine/jit/host.h"

namespace backplane::tpu {
namespace {

constexpr absl::string_view kMagic = "BPTPU001";

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
    bytes += static_cast<int64_t>(mixed::StorageBytes(leaf));
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
      if (Ints(index.begin(), index.end()) == a.output_index)
        m.alias += static_cast<int64_t>(mixed::StorageBytes(leaf));
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

void AppendField(std::string& out, absl::string_view bytes) {
  const uint64_t n = bytes.size();
  out.append(reinterpret_cast<const char*>(&n), sizeof n);
  out.append(bytes.data(), bytes.size());
}

void AppendCost(std::string& out, const NamedValues& cost) {
  std::string all;
  for (const auto& [name, value] : cost) {
    const float* number = std::get_if<float>(&value);
    if (number == nullptr) continue;  // all costs are numbers
    AppendField(all, name);
    AppendField(all, absl::string_view(reinterpret_cast<const char*>(number), sizeof *number));
  }
  AppendField(out, all);
}

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}
  absl::StatusOr<absl::string_view> Get(absl::string_view what) {
    uint64_t n = 0;
    if (rest_.size() < sizeof n) return Truncated(what);
    std::memcpy(&n, rest_.data(), sizeof n);
    rest_.remove_prefix(sizeof n);
    if (n > rest_.size()) return Truncated(what);
    absl::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  template <typename T>
  absl::Status GetPlain(absl::string_view what, T* to) {
    ASSIGN_OR_RETURN(absl::string_view bytes, Get(what));
    if (bytes.size() != sizeof(T)) {
      return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", what, " has ", bytes.size(), " bytes"));
    }
    std::memcpy(to, bytes.data(), sizeof(T));
    return absl::OkStatus();
  }
  bool empty() const { return rest_.empty(); }

 private:
  static absl::Status Truncated(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", what, " is truncated"));
  }
  absl::string_view rest_;
};

std::string HostVersion(const std::string& version) {
  return absl::StrCat(version, "; host ", engine::jit::HostFingerprint());
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
  RETURN_IF_ERROR(engine::PartitionForDevices(module.get(), options, &log));
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
  if (!engine::IsInterpretedWhole(*program.executable)) {
    const ModuleConfig& laid_out = program.kernels->config();
    KeepEntryTiled(program.executable.get(), laid_out.parameter_layouts, laid_out.result_layout, &log);
  }
  const ArrayLowering steps(chosen.machine.array_side);
  RETURN_IF_ERROR(engine::LowerForEngine(program.executable.get(), &steps, &log));
  watch.LogElapsed("engine passes", &log);
  return EmulatorExecutable::Build(std::move(program.executable), std::move(program.kernels), std::move(facts),
                                   chosen.machine.array_side, custom_calls, nullptr, std::move(log));
}

// Format: magic and version, then length-prefixed options, fingerprint, cost, memory, both modules, machine code.
absl::StatusOr<std::string> EmulatorExecutable::Serialize() const {
  std::string out(kMagic);
  AppendField(out, HostVersion(facts_.version));
  AppendField(out, SerializeCompileOptions(facts_.options));
  AppendField(out, facts_.fingerprint);
  AppendCost(out, facts_.cost);
  AppendField(out, absl::string_view(reinterpret_cast<const char*>(&facts_.memory), sizeof facts_.memory));
  ASSIGN_OR_RETURN(std::string kernels, SerializeHloModule(*kernels_));
  AppendField(out, kernels);
  ASSIGN_OR_RETURN(std::string lowered, SerializeHloModule(program_->module()));
  AppendField(out, lowered);
  for (const engine::jit::ObjectCode& o : program_->objects()) AppendField(out, o.bytes);
  return out;
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeForMachine(absl::string_view bytes,
                                                                  const EmulatorOptions& chosen,
                                                                  CustomCallRegistry* custom_calls) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("serialized executable: was not made by this plugin and version");
  }
  Reader reader(bytes.substr(kMagic.size()));
  EmulatorProgramFacts facts;
  facts.version = ComputeVersion(chosen);
  ASSIGN_OR_RETURN(absl::string_view version, reader.Get("version"));
  if (version != HostVersion(facts.version)) {
    return absl::FailedPreconditionError(
        absl::StrCat("serialized executable: made by ", version, ", this is ", HostVersion(facts.version)));
  }
  ASSIGN_OR_RETURN(absl::string_view option_bytes, reader.Get("options"));
  ASSIGN_OR_RETURN(facts.options, ParseCompileOptions(option_bytes));
  ASSIGN_OR_RETURN(absl::string_view fingerprint, reader.Get("fingerprint"));
  facts.fingerprint = std::string(fingerprint);
  ASSIGN_OR_RETURN(absl::string_view cost_bytes, reader.Get("cost"));
  for (Reader cost(cost_bytes); !cost.empty();) {
    ASSIGN_OR_RETURN(absl::string_view name, cost.Get("the name of a cost"));
    float value = 0;
    RETURN_IF_ERROR(cost.GetPlain(name, &value));
    facts.cost[std::string(name)] = value;
  }
  RETURN_IF_ERROR(reader.GetPlain("memory", &facts.memory));
  std::unique_ptr<Module> modules[2];
  for (int i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(absl::string_view proto, reader.Get(i == 0 ? "kernels" : "program"));
    ASSIGN_OR_RETURN(modules[i], ParseHloModuleProto(proto));
    modules[i]->config().num_replicas = facts.options.num_replicas;
    modules[i]->config().num_partitions = facts.options.num_partitions;
  }
  std::vector<engine::jit::ObjectCode> objects;
  while (!reader.empty()) {
    ASSIGN_OR_RETURN(absl::string_view object, reader.Get("object code"));
    objects.push_back({std::string(object)});
  }
  return EmulatorExecutable::Build(std::move(modules[1]), std::move(modules[0]), std::move(facts),
                                   chosen.machine.array_side, custom_calls, &objects, {"loaded from serialized form"});
}

}  // namespace backplane::tpu
