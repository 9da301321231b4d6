// From an imported module to an executable for the machine, and back from its stored form.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/array_steps.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "plugins/tpu_emulator/plugin/resolve_bitcasts.h"
#include "plugins/tpu_emulator/program/live_in_tiles.h"
#include "plugins/tpu_emulator/program/prepare.h"
#include "plugins/tpu_emulator/program/schedule_cost.h"
#include "plugins/tpu_emulator/report/folder.h"
#include "sdk/backend/mixed/client.h"
#include "sdk/engine/backend/pipeline.h"
#include "sdk/engine/compiler/accuracy.h"
#include "sdk/engine/jit/host.h"

namespace backplane::tpu {
namespace {

constexpr absl::string_view kMagic = "BPTPU001";

TileShape TileOf(const Machine& machine) { return {machine.tile_rows, machine.tile_lanes}; }

// Every array leaf without a layout gets the machine's; one with an order only, tiles in that order.
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

// Of the module as each device runs it: shards have their own layouts.
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

int64_t BytesOf(const Shape& shape) {
  int64_t bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    bytes += static_cast<int64_t>(mixed::StorageBytes(leaf));
  });
  return bytes;
}

// Arguments, results and what is shared by their sizes in the machine's memory; the rest of the peak is temporary.
CompiledMemoryStats MemoryOf(const Module& kernels, int64_t peak) {
  const ModuleConfig& config = kernels.config();
  CompiledMemoryStats m;
  for (const Shape& shape : config.parameter_layouts) m.argument += BytesOf(shape);
  m.output = BytesOf(config.result_layout);
  for (const InputOutputAlias& a : config.input_output_aliases) {
    ForEachLeaf(config.result_layout, [&](const Shape& leaf, const std::vector<int64_t>& index) {
      if (Ints(index.begin(), index.end()) == a.output_index)
        m.alias += static_cast<int64_t>(mixed::StorageBytes(leaf));
    });
  }
  const int64_t lasting = m.argument + m.output - m.alias;
  m.peak = std::max(peak, lasting);
  m.temp = m.peak - lasting;
  return m;
}

// Milliseconds since the last call, as lines of a log.
class Stopwatch {
 public:
  void Tell(absl::string_view what, std::vector<std::string>* log) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> took = now - last_;
    log->push_back(absl::StrFormat("%s: %.2f ms", what, took.count()));
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void Put(std::string& out, absl::string_view bytes) {
  const uint64_t n = bytes.size();
  out.append(reinterpret_cast<const char*>(&n), sizeof n);
  out.append(bytes.data(), bytes.size());
}

void PutCost(std::string& out, const NamedValues& cost) {
  std::string all;
  for (const auto& [name, value] : cost) {
    const float* number = std::get_if<float>(&value);
    if (number == nullptr) continue;  // costs are numbers
    Put(all, name);
    Put(all, absl::string_view(reinterpret_cast<const char*>(number), sizeof *number));
  }
  Put(out, all);
}

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}
  absl::StatusOr<absl::string_view> Get(absl::string_view what) {
    uint64_t n = 0;
    if (rest_.size() < sizeof n) return Short(what);
    std::memcpy(&n, rest_.data(), sizeof n);
    rest_.remove_prefix(sizeof n);
    if (n > rest_.size()) return Short(what);
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
  static absl::Status Short(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("serialized executable: ", what, " is cut short"));
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
  RETURN_IF_ERROR(engine::CheckAccuracy(*module, engine::jit::Host().has_fma));
  EmulatorProgramFacts facts;
  facts.options = options;
  facts.version = VersionOf(chosen);
  facts.fingerprint = absl::StrCat(module->Fingerprint(), "-", HostVersion(facts.version));
  RETURN_IF_ERROR(engine::PartitionForDevices(module.get(), options, &log));
  RETURN_IF_ERROR(engine::SimplifyForEngine(module.get(), &log));
  RETURN_IF_ERROR(RunPass(ResolveBitcasts(), module.get()).status());
  SetEntryLayouts(module.get(), TileOf(chosen.machine));
  watch.Tell("partitioned, simplified", &log);
  PrepareOptions prepare;
  prepare.round = chosen.round;
  prepare.f64 = chosen.f64;
  prepare.torus = chosen.torus;
  Schedule refused;
  if (!chosen.report.empty()) prepare.refused = &refused;
  absl::StatusOr<PreparedProgram> prepared = PrepareProgram(std::move(module), chosen.machine, prepare);
  const ReportFacts about{chosen.device_count(), absl::StrJoin(chosen.torus, "x")};
  if (!prepared.ok()) {
    // What does not fit has its page, too; the refusal is the error to tell, whether that could be written or not.
    if (refused.refusal) WriteReport(chosen.report, refused, chosen.machine, about).status().IgnoreError();
    return prepared.status();
  }
  PreparedProgram program = *std::move(prepared);
  facts.cost = ScheduleCost(program.schedule);
  facts.memory = MemoryOf(*program.kernels, program.plan.peak_bytes);
  watch.Tell("kernels, layouts, rounding, time", &log);
  if (!chosen.report.empty()) {
    const absl::StatusOr<ReportFiles> report = WriteReport(chosen.report, program.schedule, chosen.machine, about);
    log.push_back(report.ok() ? absl::StrCat("report: ", report->json)
                              : absl::StrCat("report: ", report.status().message()));
    if (report.ok()) facts.runs = std::make_shared<ReportedRuns>(*report);
    watch.Tell("report", &log);
  }
  if (!engine::IsInterpretedWhole(*program.executable)) {
    const ModuleConfig& laid_out = program.kernels->config();
    LiveInTiles(program.executable.get(), laid_out.parameter_layouts, laid_out.result_layout, &log);
  }
  const ArraySteps steps(chosen.machine.array_side);
  RETURN_IF_ERROR(engine::LowerForEngine(program.executable.get(), &steps, &log));
  watch.Tell("passes of the engine", &log);
  return EmulatorExecutable::Build(std::move(program.executable), std::move(program.kernels), std::move(facts),
                                   chosen.machine.array_side, custom_calls, nullptr, std::move(log));
}

// Header and version, then length-prefixed: options, fingerprint, cost, memory, both modules, machine code.
absl::StatusOr<std::string> EmulatorExecutable::Serialize() const {
  std::string out(kMagic);
  Put(out, HostVersion(facts_.version));
  Put(out, SerializeCompileOptions(facts_.options));
  Put(out, facts_.fingerprint);
  PutCost(out, facts_.cost);
  Put(out, absl::string_view(reinterpret_cast<const char*>(&facts_.memory), sizeof facts_.memory));
  ASSIGN_OR_RETURN(std::string kernels, SerializeHloModule(*kernels_));
  Put(out, kernels);
  ASSIGN_OR_RETURN(std::string lowered, SerializeHloModule(program_->module()));
  Put(out, lowered);
  for (const engine::jit::ObjectCode& o : program_->objects()) Put(out, o.bytes);
  return out;
}

absl::StatusOr<std::shared_ptr<Executable>> DeserializeForMachine(absl::string_view bytes,
                                                                  const EmulatorOptions& chosen,
                                                                  CustomCallRegistry* custom_calls) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("serialized executable: does not begin as one of this plugin and version");
  }
  Reader reader(bytes.substr(kMagic.size()));
  EmulatorProgramFacts facts;
  facts.version = VersionOf(chosen);
  ASSIGN_OR_RETURN(absl::string_view version, reader.Get("version"));
  if (version != HostVersion(facts.version)) {
    return absl::FailedPreconditionError(
        absl::StrCat("serialized executable: was made by ", version, ", this is ", HostVersion(facts.version)));
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
