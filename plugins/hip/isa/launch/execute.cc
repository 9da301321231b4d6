// Runs the work groups of a launch.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/code/loaded_code.h"
#include "plugins/hip/isa/interpreter.h"
#include "plugins/hip/isa/launch/arguments.h"
#include "plugins/hip/isa/launch/group.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {
namespace {

constexpr uint32_t kMaxGroupThreads = 1024;
constexpr uint32_t kMaxLds = 64 * 1024;
constexpr uint32_t kMaxArguments = 1 << 20;

absl::Status CheckLaunch(const KernelInfo& kernel, const Launch& launch) {
  auto bad = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("isa: ", kernel.name, ": ", parts...));
  };
  const Dim3 &b = launch.blocks, &t = launch.threads;
  if (b.x == 0 || b.y == 0 || b.z == 0 || t.x == 0 || t.y == 0 || t.z == 0) return bad("a dimension of the grid is 0");
  const uint64_t threads = uint64_t{t.x} * t.y * t.z;
  if (t.x > kMaxGroupThreads || t.y > kMaxGroupThreads || t.z > kMaxGroupThreads || threads > kMaxGroupThreads) {
    return bad("a block of ", t.x, " x ", t.y, " x ", t.z, " threads; at most ", kMaxGroupThreads, " are possible");
  }
  if (kernel.max_block_threads != 0 && threads > kernel.max_block_threads) {
    return bad("a block of ", threads, " threads; the kernel was compiled for at most ", kernel.max_block_threads);
  }
  if (uint64_t{kernel.lds_bytes} + launch.dynamic_lds > kMaxLds) {
    return bad(kernel.lds_bytes, " + ", launch.dynamic_lds, " bytes of LDS; at most ", kMaxLds, " are possible");
  }
  if (kernel.kernarg_bytes > kMaxArguments) return bad(kernel.kernarg_bytes, " bytes of arguments");
  return absl::OkStatus();
}

void AddCounts(const LaunchState& state, Statistics& s) {
  for (const auto& [function, counts] : state.counts) {
    for (size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] == 0) continue;
      const Instruction& i = function->code[n];
      s.instructions += counts[n];
      s.by_mnemonic[i.mnemonic] += counts[n];
      if (i.operation == nullptr) continue;
      switch (i.operation->category) {
        case Category::kScalar:
          s.salu += counts[n];
          break;
        case Category::kVector:
          s.valu += counts[n];
          break;
        case Category::kMatrix:
          s.matrix += counts[n];
          break;
        case Category::kGlobalLoad:
          s.global_loads += counts[n];
          break;
        case Category::kGlobalStore:
          s.global_stores += counts[n];
          break;
        case Category::kLds:
          s.lds_accesses += counts[n];
          break;
        case Category::kBarrier:
          s.barriers += counts[n];
          break;
        case Category::kScalarLoad:
        case Category::kOther:
          break;
      }
    }
  }
}

}  // namespace

void Statistics::Add(const Statistics& other) {
  for (auto sum :
       {&Statistics::instructions, &Statistics::valu, &Statistics::salu, &Statistics::matrix, &Statistics::global_loads,
        &Statistics::global_stores, &Statistics::lds_accesses, &Statistics::barriers, &Statistics::lds_bank_conflicts,
        &Statistics::global_load_bytes, &Statistics::global_store_bytes}) {
    this->*sum += other.*sum;
  }
  for (const auto& [mnemonic, n] : other.by_mnemonic) by_mnemonic[mnemonic] += n;
}

absl::StatusOr<Statistics> Execute(const CodeObject& object, const Launch& launch) {
  // LoadCodeObject makes no other code objects.
  const auto& code = static_cast<const LoadedCode&>(object);
  const std::vector<KernelInfo>& kernels = code.kernels();
  const auto kernel =
      std::find_if(kernels.begin(), kernels.end(), [&](const KernelInfo& k) { return k.name == launch.kernel; });
  if (kernel == kernels.end()) {
    return absl::NotFoundError(absl::StrCat("isa: the code object has no kernel ", launch.kernel));
  }
  if (absl::Status s = CheckLaunch(*kernel, launch); !s.ok()) return s;
  auto arguments = BuildArguments(*kernel, launch);
  if (!arguments.ok()) return arguments.status();
  const std::vector<uint64_t> packet =
      BuildDispatchPacket(*kernel, launch, reinterpret_cast<uint64_t>(arguments->data()));

  LaunchState state;
  state.code = &code;
  state.kernel = &*kernel;
  state.guard = launch.guard;
  state.machine = code.machine();
  state.kernarg = reinterpret_cast<const uint8_t*>(arguments->data());
  state.kernarg_bytes = arguments->size() * 8;
  state.dispatch_packet = reinterpret_cast<const uint8_t*>(packet.data());
  state.dispatch_packet_bytes = packet.size() * 8;
  state.instructions_left = launch.max_instructions == 0 ? ~0ull : static_cast<uint64_t>(launch.max_instructions);
  auto group = GroupRunner::Create(&state, static_cast<size_t>(kernel - kernels.begin()), launch);
  if (!group.ok()) return group.status();
  const Dim3& b = launch.blocks;
  const uint64_t all = uint64_t{b.x} * b.y * b.z;
  const uint64_t count = launch.block_count == 0 ? all - std::min(all, launch.first_block) : launch.block_count;
  if (launch.first_block > all || count > all - launch.first_block) {
    return absl::InvalidArgumentError(absl::StrCat("isa: ", launch.kernel, ": ", count, " work groups from ",
                                                   launch.first_block, " on, of a grid of ", all));
  }
  for (uint64_t n = launch.first_block; n < launch.first_block + count; ++n) {
    const uint32_t x = static_cast<uint32_t>(n % b.x), y = static_cast<uint32_t>(n / b.x % b.y);
    if (absl::Status s = (*group)->Run(x, y, static_cast<uint32_t>(n / b.x / b.y)); !s.ok()) return s;
  }
  Statistics statistics = std::move(state.statistics);
  AddCounts(state, statistics);
  return statistics;
}

}  // namespace backplane::hip::isa
