#include "sdk/engine/jit/host.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

namespace backplane::engine::jit {
namespace {

bool StartsWithAny(llvm::StringRef name, std::initializer_list<const char*> prefixes) {
  for (const char* p : prefixes) {
    if (name.starts_with(p)) return true;
  }
  return false;
}

std::string JoinFeatures(const std::vector<std::string>& list) {
  std::string joined;
  for (const std::string& f : list) {
    if (!joined.empty()) joined += ',';
    joined += f;
  }
  return joined;
}

// Leaves out what LLVM knows of the cpu anyway. It reads the list several times for each module, and each entry costs
// it a microsecond.
std::string SimplifyFeatures(const backplane::codegen::IrTarget& target, const std::vector<std::string>& list) {
  RegisterHost();
  const std::string all = JoinFeatures(list);
  std::string error;
  const llvm::Target* generator = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (generator == nullptr) return all;
  auto make = [&](const std::string& features) {
    return std::unique_ptr<llvm::MCSubtargetInfo>(
        generator->createMCSubtargetInfo(target.triple, target.cpu, features));
  };
  const std::unique_ptr<llvm::MCSubtargetInfo> plain = make(""), wanted = make(all);
  if (plain == nullptr || wanted == nullptr) return all;
  llvm::StringMap<bool> known;
  for (const llvm::SubtargetFeatureKV& feature : plain->getAllProcessorFeatures())
    known[feature.Key] = plain->getFeatureBits().test(feature.Value);
  std::vector<std::string> rest;
  for (const std::string& f : list) {
    if (known.lookup(llvm::StringRef(f).drop_front()) != (f[0] == '+')) rest.push_back(f);
  }
  const std::string simple = JoinFeatures(rest);
  // One feature can imply another, so the result is compared.
  const std::unique_ptr<llvm::MCSubtargetInfo> made = make(simple);
  return made != nullptr && made->getFeatureBits() == wanted->getFeatureBits() ? simple : all;
}

}  // namespace

void RegisterHost() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

HostInfo DetectHost(int max_vector_bytes) {
  HostInfo host;
  backplane::codegen::IrTarget& target = host.target;
  target.cpu = llvm::sys::getHostCPUName().str();
  target.triple = llvm::sys::getProcessTriple();
  target.passes = {.loop_strength_reduction = false,
                   .prepare = false,
                   .schedule_before_allocation = false,
                   .schedule_after_allocation = false};
  const llvm::StringMap<bool> detected = llvm::sys::getHostCPUFeatures();

  auto hidden = [&](llvm::StringRef name) {
    if (max_vector_bytes < 64 && StartsWithAny(name, {"avx512", "avx10", "amx", "evex512"})) return true;
    return max_vector_bytes < 32 &&
           StartsWithAny(name, {"avx", "fma", "f16c", "vaes", "vpclmulqdq", "xop", "sha512", "sm3", "sm4"});
  };
  // A string map iterates in hash order; the fingerprint wants a fixed one.
  std::vector<std::string> list;
  for (const auto& entry : detected) {
    const bool on = entry.getValue() && !hidden(entry.getKey());
    list.push_back((on ? "+" : "-") + entry.getKey().str());
  }
  std::sort(list.begin(), list.end());
  target.features = SimplifyFeatures(target, list);
  auto has = [&](llvm::StringRef name) { return detected.lookup(name) && !hidden(name); };

  host.has_f16c = has("f16c");
  host.has_avx2 = has("avx2") && has("fma");
  target.has_fma = has("fma");
  target.fuses_sums_of_products = target.has_fma;
  target.has_rounding = has("sse4.1");
  target.has_f16_conversions = host.has_f16c;
  target.has_avx512 = host.has_avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  host.has_avx512_fp16 = target.has_avx512 && has("avx512fp16");
  host.has_avx512_vnni = target.has_avx512 && has("avx512vnni");
  target.links_exact_math = true;
  target.vector_bytes = target.has_avx512 ? 64 : host.has_avx2 ? 32 : 16;
  return host;
}

const HostInfo& Host() {
  static const HostInfo* const host = new HostInfo(DetectHost(ReadMaxVectorBytesFromEnvironment()));
  return *host;
}

}  // namespace backplane::engine::jit
