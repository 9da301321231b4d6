#include "plugins/tpu_emulator/machine/machine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB, kTiB = 1024 * kGiB;

// A scalar field: its name in JSON, its member, and the range of plausible values.
struct Field {
  const char* name;
  std::variant<int64_t Machine::*, double Machine::*> member;
  double least, most;
};

constexpr Field kFields[] = {
    {"array_side", &Machine::array_side, 8, kMaxArraySide},
    {"arrays_per_core", &Machine::arrays_per_core, 1, 256},
    {"macs_per_cycle", &Machine::macs_per_cycle, 64, 1e8},
    {"clock_ghz", &Machine::clock_ghz, 0.01, 20},
    {"cores_per_device", &Machine::cores_per_device, 1, 64},
    {"vpu_issue", &Machine::vpu_issue, 0.25, 64},
    {"vpu_vregs", &Machine::vpu_vregs, 8, 4096},
    {"vmem_bytes", &Machine::vmem_bytes, 64 * kKiB, 16.0 * kGiB},
    {"scoped_vmem_bytes", &Machine::scoped_vmem_bytes, 64 * kKiB, 16.0 * kGiB},
    {"hbm_bytes", &Machine::hbm_bytes, kMiB, 64.0 * kTiB},
    {"hbm_gb_per_s", &Machine::hbm_gb_per_s, 0.1, 1e6},
    {"hbm_efficiency", &Machine::hbm_efficiency, 0.01, 1},
    {"smem_bytes", &Machine::smem_bytes, kKiB, 1.0 * kGiB},
    {"cmem_bytes", &Machine::cmem_bytes, 0, 64.0 * kGiB},
    {"cmem_gb_per_s", &Machine::cmem_gb_per_s, 0, 1e6},
    {"ici_links", &Machine::ici_links, 0, 64},
    {"ici_gb_per_s", &Machine::ici_gb_per_s, 0.01, 1e5},
    {"torus_rank", &Machine::torus_rank, 1, 6},
    {"hop_microseconds", &Machine::hop_microseconds, 0, 1e4},
    {"pcie_gb_per_s", &Machine::pcie_gb_per_s, 0.01, 1e4},
    {"tile_rows", &Machine::tile_rows, 1, 64},
    {"tile_lanes", &Machine::tile_lanes, 8, 1024},
    {"matmul_kernel_cycles", &Machine::matmul_kernel_cycles, 0, 1e7},
    {"integer_kernel_cycles", &Machine::integer_kernel_cycles, 0, 1e7},
    {"vector_kernel_cycles", &Machine::vector_kernel_cycles, 0, 1e7},
    {"dispatch_microseconds", &Machine::dispatch_microseconds, 0, 1e7},
    {"weight_load_rows", &Machine::weight_load_rows, 0, 1e4},
    {"transposed_load_rows", &Machine::transposed_load_rows, 0, 1e4},
    {"split_load_rows", &Machine::split_load_rows, 0, 1e4},
    {"row_cycles", &Machine::row_cycles, 1, 100},
    {"window_cycles", &Machine::window_cycles, 0, 1e6},
    {"accumulate_cycles", &Machine::accumulate_cycles, 0, 1000},
    {"convert_ops", &Machine::convert_ops, 0, 1000},
    {"exposed_share", &Machine::exposed_share, 0, 1},
};

using enum PrimitiveType;

Machine V4() {
  Machine m;
  m.name = "v4";
  m.array_side = 128;
  m.arrays_per_core = 4;
  m.macs_per_cycle = 65536;
  m.clock_ghz = 1.05;
  m.cores_per_device = 1;
  m.vpu_issue = 2;
  m.vpu_vregs = 32;
  m.vmem_bytes = 16 * kMiB;
  m.scoped_vmem_bytes = 16 * kMiB;
  m.hbm_bytes = 61 * kGiB / 4;  // 15.25 GiB
  m.hbm_gb_per_s = 614;
  m.hbm_efficiency = 0.8;
  m.smem_bytes = kMiB;
  m.cmem_bytes = 64 * kMiB;
  m.cmem_gb_per_s = 0;
  m.ici_links = 6;
  m.ici_gb_per_s = 45;
  m.torus_rank = 3;
  m.hop_microseconds = 1;
  m.pcie_gb_per_s = 15;
  m.tile_rows = 8;
  m.tile_lanes = 128;
  m.matmul_kernel_cycles = 1427;
  m.vector_kernel_cycles = 620;
  m.dispatch_microseconds = 100;
  m.weight_load_rows = 68;
  m.transposed_load_rows = 136;
  m.split_load_rows = 130;
  m.convert_ops = 4.7;
  m.row_cycles = 1.124;
  m.window_cycles = 1032;
  m.accumulate_cycles = 0.111;
  m.exposed_share = 0.35;
  m.type_speed = {{kBF16, 1}, {kF32, 1}, {kS8, 1}, {kS4, 1}, {kF8E5M2, 1}, {kF8E4M3FN, 1}, {kF8E4M3B11FNUZ, 1}};
  m.native_inputs = {{kF32, kF32}, {kF32, kBF16}, {kF32, kS8}, {kBF16, kF32}, {kBF16, kBF16}, {kBF16, kS8}};
  return m;
}

Machine V5e() {
  Machine m = V4();
  m.name = "v5e";
  m.clock_ghz = 1.5;
  m.vpu_issue = 4;
  m.vpu_vregs = 64;
  m.vmem_bytes = 128 * kMiB;
  m.hbm_bytes = 63 * kGiB / 4;  // 15.75 GiB
  m.hbm_gb_per_s = 819;
  m.hbm_efficiency = 0.9;
  m.cmem_bytes = 0;
  m.ici_links = 4;
  m.torus_rank = 2;
  m.matmul_kernel_cycles = 3831;
  m.vector_kernel_cycles = 1830;
  m.accumulate_cycles = 0.909;
  m.convert_ops = 2;
  m.row_cycles = 1.055;
  m.weight_load_rows = m.transposed_load_rows = m.split_load_rows = 35;
  m.window_cycles = 2340;
  m.type_speed = {{kBF16, 1}, {kF32, 1},    {kS8, 2},       {kU8, 2},           {kS4, 2},
                  {kU4, 2},   {kF8E5M2, 1}, {kF8E4M3FN, 1}, {kF8E4M3B11FNUZ, 1}};
  m.native_inputs = {{kBF16, kBF16}, {kF32, kF32},       {kS8, kS8},
                     {kS4, kS4},     {kF8E5M2, kF8E5M2}, {kF8E4M3B11FNUZ, kF8E4M3B11FNUZ}};
  return m;
}

Machine V5p() {
  Machine m = V5e();
  m.name = "v5p";
  m.clock_ghz = 1.75;
  m.cores_per_device = 2;
  m.vmem_bytes = 64 * kMiB;
  m.hbm_bytes = 102789302583;  // 95.73 GiB
  m.hbm_gb_per_s = 2765;
  m.hbm_efficiency = 0.85;
  m.ici_links = 6;
  m.ici_gb_per_s = 90;
  m.torus_rank = 3;
  m.matmul_kernel_cycles = 4461;
  m.vector_kernel_cycles = 2125;
  m.accumulate_cycles = 0.664;
  m.row_cycles = 1.084;
  m.weight_load_rows = m.transposed_load_rows = m.split_load_rows = 35;
  m.window_cycles = 2013;
  return m;
}

Machine V6e() {
  Machine m = V5e();
  m.name = "v6e";
  m.array_side = 256;
  m.arrays_per_core = 2;
  m.macs_per_cycle = 262144;
  m.clock_ghz = 1.75;
  m.scoped_vmem_bytes = 32 * kMiB;
  m.hbm_bytes = 33543694581;  // 31.24 GiB
  m.hbm_gb_per_s = 1638;
  m.hbm_efficiency = 1;
  m.ici_gb_per_s = 90;
  m.pcie_gb_per_s = 32;
  m.matmul_kernel_cycles = 4295;
  m.integer_kernel_cycles = 1050;
  m.vector_kernel_cycles = 2120;
  m.accumulate_cycles = 3.3;
  m.row_cycles = 1.046;
  m.weight_load_rows = m.transposed_load_rows = m.split_load_rows = 143;
  m.window_cycles = 2584;
  return m;
}

Machine Tpu7x() {
  Machine m = V6e();
  m.name = "tpu7x";
  m.clock_ghz = 2.2;
  m.vmem_bytes = 64 * kMiB;
  m.scoped_vmem_bytes = 67045949;  // 63.94 MiB
  m.hbm_bytes = 101726300405;      // 94.74 GiB
  m.hbm_gb_per_s = 3686;
  m.ici_links = 6;
  m.ici_gb_per_s = 100;
  m.torus_rank = 3;
  m.matmul_kernel_cycles = 5560;
  m.integer_kernel_cycles = 0;
  m.vector_kernel_cycles = 2300;
  m.accumulate_cycles = 5.388;
  m.row_cycles = 1.104;
  m.weight_load_rows = m.transposed_load_rows = m.split_load_rows = 102;
  m.window_cycles = 2524;
  m.type_speed = {{kBF16, 1}, {kF32, 1}, {kS8, 1}, {kS4, 1}, {kF8E5M2, 2}, {kF8E4M3FN, 2}};
  m.native_inputs = {{kBF16, kBF16}, {kF32, kF32}, {kF8E5M2, kF8E5M2}, {kF8E4M3FN, kF8E4M3FN}};
  return m;
}

// Returns the keys of a JSON object in sorted order. The object itself iterates in hash order.
std::vector<std::string> SortedKeys(const llvm::json::Object& object) {
  std::vector<std::string> keys;
  for (const auto& entry : object) keys.push_back(entry.first.str());
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::string Number(double value) { return llvm::formatv("{0}", llvm::json::Value(value)).str(); }

absl::Status ReadScalar(const Field& field, const llvm::json::Value& value, Machine& machine) {
  if (const auto* member = std::get_if<int64_t Machine::*>(&field.member)) {
    const std::optional<int64_t> number = value.getAsInteger();
    if (!number) return absl::InvalidArgumentError(absl::StrCat("machine: ", field.name, " is not a whole number"));
    machine.** member = *number;
    return absl::OkStatus();
  }
  const std::optional<double> number = value.getAsNumber();
  if (!number) return absl::InvalidArgumentError(absl::StrCat("machine: ", field.name, " is not a number"));
  machine.*std::get<double Machine::*>(field.member) = *number;
  return absl::OkStatus();
}

absl::StatusOr<PrimitiveType> ReadType(absl::string_view field, absl::string_view name) {
  const std::optional<PrimitiveType> type = PrimitiveTypeFromName(name);
  if (!type || !IsArrayType(*type)) {
    return absl::InvalidArgumentError(absl::StrCat("machine: ", field, ": '", name, "' is no element type"));
  }
  return *type;
}

absl::Status ReadTypeSpeed(const llvm::json::Value& value, Machine& machine) {
  const llvm::json::Object* object = value.getAsObject();
  if (!object) return absl::InvalidArgumentError("machine: type_speed is not an object of type names and numbers");
  machine.type_speed.clear();
  for (const std::string& key : SortedKeys(*object)) {
    absl::StatusOr<PrimitiveType> type = ReadType("type_speed", key);
    if (!type.ok()) return type.status();
    const std::optional<double> speed = object->getNumber(key);
    if (!speed) return absl::InvalidArgumentError(absl::StrCat("machine: type_speed of ", key, " is not a number"));
    machine.type_speed.emplace_back(*type, *speed);
  }
  std::sort(machine.type_speed.begin(), machine.type_speed.end());
  return absl::OkStatus();
}

absl::Status ReadNativeInputs(const llvm::json::Value& value, Machine& machine) {
  const llvm::json::Array* array = value.getAsArray();
  if (!array) return absl::InvalidArgumentError("machine: native_inputs is not an array of \"lhs*rhs\"");
  machine.native_inputs.clear();
  for (const llvm::json::Value& entry : *array) {
    const std::optional<llvm::StringRef> text = entry.getAsString();
    if (!text) return absl::InvalidArgumentError("machine: native_inputs is not an array of \"lhs*rhs\"");
    const std::vector<std::string> names = absl::StrSplit(text->str(), '*');
    if (names.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("machine: native_inputs: '", text->str(), "' is not lhs*rhs"));
    }
    absl::StatusOr<PrimitiveType> lhs = ReadType("native_inputs", names[0]), rhs = ReadType("native_inputs", names[1]);
    if (!lhs.ok()) return lhs.status();
    if (!rhs.ok()) return rhs.status();
    machine.native_inputs.emplace_back(*lhs, *rhs);
  }
  std::sort(machine.native_inputs.begin(), machine.native_inputs.end());
  return absl::OkStatus();
}

}  // namespace

double Machine::EffectiveArrays() const {
  return static_cast<double>(macs_per_cycle * cores_per_device) / static_cast<double>(array_side * array_side);
}

double Machine::TypeSpeed(PrimitiveType type) const {
  for (const auto& [named, speed] : type_speed) {
    if (named == type) return speed;
  }
  return 1;
}

bool Machine::IsNative(PrimitiveType lhs, PrimitiveType rhs) const {
  return std::find(native_inputs.begin(), native_inputs.end(), std::pair(lhs, rhs)) != native_inputs.end();
}

double Machine::PeakBf16Flops() const {
  return 2.0 * static_cast<double>(macs_per_cycle) * static_cast<double>(cores_per_device) * CyclesPerSecond();
}

double Machine::HbmBytesPerSecond() const { return hbm_gb_per_s * 1e9 * hbm_efficiency; }

double Machine::CyclesPerSecond() const { return clock_ghz * 1e9; }

absl::Span<const Machine> KnownMachines() {
  static const auto* const machines = [] {
    auto* all = new std::vector<Machine>{V4(), V5e(), V5p(), V6e(), Tpu7x()};
    for (Machine& m : *all) {
      std::sort(m.type_speed.begin(), m.type_speed.end());
      std::sort(m.native_inputs.begin(), m.native_inputs.end());
    }
    return all;
  }();
  return *machines;
}

const Machine* FindMachine(absl::string_view name) {
  for (const Machine& machine : KnownMachines()) {
    if (machine.name == name) return &machine;
  }
  return nullptr;
}

absl::Status CheckMachine(const Machine& machine) {
  if (machine.name.empty()) return absl::InvalidArgumentError("machine: name is empty");
  for (const Field& field : kFields) {
    const double value = std::visit([&](auto member) { return static_cast<double>(machine.*member); }, field.member);
    if (!(value >= field.least && value <= field.most)) {
      return absl::InvalidArgumentError(absl::StrCat("machine: ", field.name, " is ", Number(value), ", expected ",
                                                     Number(field.least), " to ", Number(field.most)));
    }
  }
  for (const auto& [name, value] :
       {std::pair("array_side", machine.array_side), std::pair("tile_rows", machine.tile_rows),
        std::pair("tile_lanes", machine.tile_lanes)}) {
    if (!std::has_single_bit(static_cast<uint64_t>(value))) {
      return absl::InvalidArgumentError(absl::StrCat("machine: ", name, " is ", value, ", expected a power of two"));
    }
  }
  if (machine.scoped_vmem_bytes > machine.vmem_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("machine: scoped_vmem_bytes ", machine.scoped_vmem_bytes,
                                                   " is more than vmem_bytes ", machine.vmem_bytes));
  }
  for (const auto& [type, speed] : machine.type_speed) {
    if (!(speed >= 0.001 && speed <= 64)) {
      return absl::InvalidArgumentError(
          absl::StrCat("machine: type_speed of ", Name(type), " is ", Number(speed), ", expected 0.001 to 64"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Machine> ReadMachine(absl::string_view json) {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(llvm::StringRef(json.data(), json.size()));
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat("machine: not JSON: ", llvm::toString(parsed.takeError())));
  }
  const llvm::json::Object* object = parsed->getAsObject();
  if (!object) return absl::InvalidArgumentError("machine: the text is not one JSON object");

  Machine machine;
  bool has_base = false;
  if (const llvm::json::Value* base = object->get("base")) {
    const std::optional<llvm::StringRef> name = base->getAsString();
    if (!name) return absl::InvalidArgumentError("machine: base is not a text");
    const Machine* known = FindMachine(absl::string_view(name->data(), name->size()));
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat("machine: base '", name->str(), "' is not known; known are v4, v5e, v5p, v6e, tpu7x"));
    }
    machine = *known;
    if (object->size() > 1) machine.name = absl::StrCat(known->name, " (changed)");
    has_base = true;
  }

  for (const std::string& key : SortedKeys(*object)) {
    const llvm::json::Value& value = *object->get(key);
    const Field* field =
        std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) { return key == f.name; });
    absl::Status status;
    if (field != std::end(kFields)) {
      status = ReadScalar(*field, value, machine);
    } else if (key == "type_speed") {
      status = ReadTypeSpeed(value, machine);
    } else if (key == "native_inputs") {
      status = ReadNativeInputs(value, machine);
    } else if (key == "name") {
      const std::optional<llvm::StringRef> name = value.getAsString();
      if (!name) return absl::InvalidArgumentError("machine: name is not a text");
      machine.name = name->str();
    } else if (key != "base") {
      status = absl::InvalidArgumentError(absl::StrCat("machine: unknown field '", key, "'"));
    }
    if (!status.ok()) return status;
  }

  if (!has_base) {
    for (const Field& field : kFields) {
      if (!object->get(field.name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("machine: field ", field.name, " is missing and there is no base"));
      }
    }
    for (const char* name : {"name", "type_speed", "native_inputs"}) {
      if (!object->get(name)) {
        return absl::InvalidArgumentError(absl::StrCat("machine: field ", name, " is missing and there is no base"));
      }
    }
  }
  if (absl::Status status = CheckMachine(machine); !status.ok()) return status;
  return machine;
}

std::string WriteMachine(const Machine& machine) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream out(stream, 2);
  out.object([&] {
    out.attribute("name", machine.name);
    for (const Field& field : kFields) {
      std::visit([&](auto member) { out.attribute(field.name, machine.*member); }, field.member);
    }
    out.attributeObject("type_speed", [&] {
      for (const auto& [type, speed] : machine.type_speed) out.attribute(std::string(Name(type)), speed);
    });
    out.attributeArray("native_inputs", [&] {
      for (const auto& [lhs, rhs] : machine.native_inputs) out.value(absl::StrCat(Name(lhs), "*", Name(rhs)));
    });
  });
  out.flush();
  stream << '\n';
  stream.flush();
  return text;
}

}  // namespace backplane::tpu
