#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "plugins/hip/lowering/amd_machine.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {
namespace {

constexpr char kNvidiaPrefix[] = "sm_";
constexpr const char* kNvidiaNames[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};
constexpr absl::string_view kHopper = "sm_90", kHopperAlone = "sm_90a";  // the latter's code runs on no other GPU

GpuTarget AmdTarget(const AmdMachine& machine) {
  GpuTarget t;
  t.name = machine.name;
  t.kind = ImageKind::kAmdCodeObject;
  t.ir = codegen::AmdGpuTarget(machine.name);
  t.wave_size = machine.wave_size;
  t.shared_bytes = 65536;
  t.max_vgprs = machine.max_vgprs;
  t.code_object_version = machine.generic ? 6 : 5;
  return t;
}

GpuTarget NvidiaTarget(absl::string_view name) {
  GpuTarget t;
  t.name = std::string(name);
  t.kind = ImageKind::kPtx;
  t.ir = codegen::NvptxTarget(name);
  t.wave_size = 32;
  // CUDA C++ Programming Guide, "Technical specifications per compute capability". More than 48 KiB are given at
  // launch.
  const bool is_hopper = name == kHopper || name == kHopperAlone;
  t.multiprocessor_shared_bytes = (is_hopper ? 228 : name == "sm_80" ? 164 : 100) * 1024;
  t.shared_bytes = t.multiprocessor_shared_bytes - 1024;
  t.max_vgprs = 255;
  t.multiplies_matrices = true;
  t.multiplies_in_groups = name == kHopperAlone;
  return t;
}

GpuTarget HostTarget() {
  GpuTarget t;
  t.name = "host";
  t.kind = ImageKind::kHost;
  t.ir.triple = llvm::sys::getProcessTriple();
  t.ir.cpu = llvm::sys::getHostCPUName().str();
  const llvm::StringMap<bool> detected = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> features;
  for (const auto& feature : detected) {
    features.push_back(absl::StrCat(feature.getValue() ? "+" : "-", feature.getKey().str()));
  }
  std::sort(features.begin(), features.end());  // a string map has no order
  t.ir.features = absl::StrJoin(features, ",");
  t.ir.has_fma = detected.lookup("fma");
  t.ir.has_rounding = detected.lookup("sse4.1");
  t.ir.has_f16_conversions = detected.lookup("f16c");
  // Scalars of a thread: the vectors are made of threads, from instructions that every machine has.
  t.ir.has_avx512 = false;
  t.ir.vector_bytes = 0;
  t.ir.index_bits = 32;
  t.ir.buffer_address_space = kGlobalAddressSpace;
  t.ir.buffer_alignment = 16;
  t.max_vgprs = 0;
  return t;
}

}  // namespace

std::vector<std::string> ListGpuTargets() {
  std::vector<std::string> names;
  for (const AmdMachine& machine : AmdMachines()) names.push_back(machine.name);
  for (const char* name : kNvidiaNames) names.push_back(name);
  names.push_back("host");
  return names;
}

std::string FindTargetOfArchitecture(absl::string_view architecture) {
  absl::string_view name = architecture.substr(0, architecture.find(':'));
  if (name == kHopper) return std::string(kHopperAlone);
  int number = 0;
  absl::string_view digits = name;
  if (absl::ConsumePrefix(&digits, kNvidiaPrefix) && absl::SimpleAtoi(digits, &number)) {
    for (const char* known : kNvidiaNames) {
      int of_known = 0;
      if (absl::SimpleAtoi(absl::StripPrefix(known, kNvidiaPrefix), &of_known) && of_known <= number) name = known;
    }
  }
  return std::string(name);
}

absl::StatusOr<GpuTarget> FindGpuTarget(absl::string_view name) {
  if (name == "host") return HostTarget();
  if (const AmdMachine* machine = FindAmdMachine(name)) return AmdTarget(*machine);
  absl::string_view machine_name = name;
  const bool registers = absl::ConsumeSuffix(&machine_name, kRegistersSuffix);
  const bool tf32 = absl::ConsumeSuffix(&machine_name, kTf32Suffix);
  for (const char* nvidia : kNvidiaNames) {
    if (machine_name != nvidia) continue;
    GpuTarget target = NvidiaTarget(machine_name);
    target.tf32_products = tf32;
    target.async_copies = !registers;
    return target;
  }
  if (tf32 || registers)
    return absl::NotFoundError(absl::StrCat("lowering: target \"", machine_name, "\" has no ",
                                            tf32 ? "products by tf32" : "asynchronous copies to leave out", ": ",
                                            kNvidiaNames[0], " and later have"));
  return absl::NotFoundError(
      absl::StrCat("lowering: no target \"", name, "\"; those known: ", absl::StrJoin(ListGpuTargets(), ", ")));
}

}  // namespace backplane::hip
