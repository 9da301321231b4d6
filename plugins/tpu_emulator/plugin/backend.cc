// The emulator of a tiled TPU behind the C ABI. Arrays lie in memory as a TPU lays them, tiled and padded; contractions
// are rounded as its matrix unit rounds them; everything else is evaluated by its definition.
#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/array/contraction.h"
#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/plugin/hbm.h"
#include "plugins/tpu_emulator/plugin/memory_plan.h"
#include "plugins/tpu_emulator/plugin/options.h"
#include "sdk/backend/mixed/client.h"
#include "sdk/backend/mixed/executable.h"

namespace backplane {
namespace tpu {
namespace {

TileShape TileOf(const Machine& machine) { return {machine.tile_rows, machine.tile_lanes}; }

class EmulatorClient : public mixed::MixedClient {
 public:
  EmulatorClient(std::shared_ptr<mixed::Runtime> runtime, TileShape tile)
      : MixedClient(std::move(runtime)), tile_(tile) {}
  absl::StatusOr<Layout> DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims) const override {
    return tpu::DefaultLayout(type, dims, tile_);
  }

 private:
  const TileShape tile_;
};

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
absl::Status SetEntryLayouts(Module* module, TileShape tile) {
  ModuleConfig& config = module->config();
  const Computation* entry = module->entry();
  std::vector<Shape> parameters;
  for (size_t i = 0; i < entry->parameters().size(); ++i) {
    const Shape* asked = i < config.parameter_layouts.size() ? &config.parameter_layouts[i] : nullptr;
    parameters.push_back(WithMachineLayouts(entry->parameter(static_cast<int64_t>(i))->shape(), asked, tile));
  }
  config.parameter_layouts = std::move(parameters);
  config.result_layout = WithMachineLayouts(entry->root()->shape(), &config.result_layout, tile);
  return absl::OkStatus();
}

// Layouts of the entry, and whether what it needs is there.
absl::Status FitToMachine(Module* module, const Machine& machine) {
  RETURN_IF_ERROR(SetEntryLayouts(module, TileOf(machine)));
  const MemoryPlan plan = PlanMemory(*module, TileOf(machine));
  return CheckHbm(machine, module->name(), plan.peak_bytes, plan.allocations);
}

Literal Operand(const Instruction& op, int64_t i, const mixed::KernelArrays& arrays) {
  return Literal::Borrow(op.operand(i)->shape().WithoutLayout(), arrays.operands[static_cast<size_t>(i)]);
}

// What the matrix unit computes.
mixed::Claims ClaimsOf(const Machine& machine) {
  const int64_t side = machine.array_side;
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  mixed::Claims claims;
  for (Opcode opcode : {Opcode::kDot, Opcode::kConvolution}) {
    claims.Add({"matrix unit",
                opcode,
                {},
                [](const Instruction& op, PrimitiveType, const Shape&) { return TakenByArray(op); },
                [side, threads](const Instruction& op) -> absl::StatusOr<mixed::Kernel> {
                  return [&op, side, threads](const mixed::KernelArrays& arrays) -> absl::Status {
                    const Literal lhs = Operand(op, 0, arrays), rhs = Operand(op, 1, arrays);
                    ASSIGN_OR_RETURN(Literal out, RunOnArray(op, lhs, rhs, side, threads));
                    std::memcpy(arrays.results[0], out.bytes(), static_cast<size_t>(out.shape().byte_size()));
                    return absl::OkStatus();
                  };
                }});
  }
  return claims;
}

// Part of what is serialized: another machine's executable would have other layouts.
std::string VersionFor(const Machine& machine) { return absl::StrCat(kVersion, "; ", machine.name); }

class EmulatorBackend : public Backend {
 public:
  explicit EmulatorBackend(BackendServices services) : services_(std::move(services)) {}

  std::string platform_name() const override { return kPlatformName; }

  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& options) override {
    ASSIGN_OR_RETURN(EmulatorOptions chosen, ReadOptions("", options));
    auto memory = std::make_shared<Hbm>(chosen.device_count(), chosen.machine.hbm_bytes, chosen.poison);
    return std::make_unique<EmulatorClient>(
        std::make_shared<mixed::Runtime>(MakeTopology(chosen), std::move(memory), chosen.collective_timeout),
        TileOf(chosen.machine));
  }

  absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& options) override {
    ASSIGN_OR_RETURN(EmulatorOptions chosen, ReadOptions(name, options));
    return MakeTopology(chosen);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology& topology) override {
    ASSIGN_OR_RETURN(Machine machine, MachineOf(topology));
    return mixed::CompileMixed(std::move(module), options, VersionFor(machine), ClaimsOf(machine),
                               *services_.custom_calls, [&machine](Module* m) { return FitToMachine(m, machine); });
  }

  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology& topology) override {
    ASSIGN_OR_RETURN(Machine machine, MachineOf(topology));
    return mixed::DeserializeMixed(bytes, VersionFor(machine), ClaimsOf(machine), *services_.custom_calls);
  }

 private:
  const BackendServices services_;
};

}  // namespace
}  // namespace tpu

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  return std::make_unique<tpu::EmulatorBackend>(std::move(services));
}

}  // namespace backplane
