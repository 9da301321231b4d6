#include "plugins/hip/isa/launch/arguments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace backplane::hip::isa {
namespace {

uint32_t GridDimensions(const Launch& launch) {
  if (launch.blocks.z * launch.threads.z > 1) return 3;
  return launch.blocks.y * launch.threads.y > 1 ? 2 : 1;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> BuildArguments(const KernelInfo& kernel, const Launch& launch) {
  const std::pair<absl::string_view, uint64_t> values[] = {{"hidden_block_count_x", launch.blocks.x},
                                                           {"hidden_block_count_y", launch.blocks.y},
                                                           {"hidden_block_count_z", launch.blocks.z},
                                                           {"hidden_group_size_x", launch.threads.x},
                                                           {"hidden_group_size_y", launch.threads.y},
                                                           {"hidden_group_size_z", launch.threads.z},
                                                           // Grids are made of whole groups.
                                                           {"hidden_remainder_x", 0},
                                                           {"hidden_remainder_y", 0},
                                                           {"hidden_remainder_z", 0},
                                                           {"hidden_global_offset_x", 0},
                                                           {"hidden_global_offset_y", 0},
                                                           {"hidden_global_offset_z", 0},
                                                           {"hidden_grid_dims", GridDimensions(launch)},
                                                           {"hidden_dynamic_lds_size", launch.dynamic_lds},
                                                           {"hidden_private_base", 0x00020000},
                                                           {"hidden_shared_base", 0x00010000},
                                                           {"hidden_none", 0},
                                                           {"hidden_hostcall_buffer", 0},
                                                           {"hidden_multigrid_sync_arg", 0},
                                                           {"hidden_heap_v1", 0},
                                                           {"hidden_default_queue", 0},
                                                           {"hidden_completion_action", 0},
                                                           {"hidden_queue_ptr", 0},
                                                           {"hidden_printf_buffer", 0}};
  std::vector<uint64_t> memory((kernel.kernarg_bytes + 7) / 8 + 1);
  uint8_t* bytes = reinterpret_cast<uint8_t*>(memory.data());
  uint32_t explicit_bytes = 0;
  for (const KernelArgument& a : kernel.arguments) {
    if (!absl::StartsWith(a.value_kind, "hidden_")) {
      explicit_bytes = std::max(explicit_bytes, a.offset + a.size);
      continue;
    }
    const auto* value =
        std::find_if(std::begin(values), std::end(values), [&](const auto& v) { return v.first == a.value_kind; });
    if (value == std::end(values)) {
      return absl::UnimplementedError(absl::StrCat("isa: ", kernel.name, ": the hidden argument ", a.value_kind));
    }
    std::memcpy(bytes + a.offset, &value->second, std::min<uint32_t>(a.size, 8));
  }
  if (launch.kernarg.size() < explicit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("isa: ", kernel.name, " takes ", explicit_bytes,
                                                   " bytes of arguments, not ", launch.kernarg.size()));
  }
  if (explicit_bytes > 0) std::memcpy(bytes, launch.kernarg.data(), explicit_bytes);
  return memory;
}

std::vector<uint64_t> BuildDispatchPacket(const KernelInfo& kernel, const Launch& launch, uint64_t arguments) {
  std::vector<uint64_t> packet(8);
  uint8_t* p = reinterpret_cast<uint8_t*>(packet.data());
  auto put = [p](int offset, auto value) { std::memcpy(p + offset, &value, sizeof(value)); };
  put(2, static_cast<uint16_t>(GridDimensions(launch)));
  put(4, static_cast<uint16_t>(launch.threads.x));
  put(6, static_cast<uint16_t>(launch.threads.y));
  put(8, static_cast<uint16_t>(launch.threads.z));
  put(12, launch.blocks.x * launch.threads.x);
  put(16, launch.blocks.y * launch.threads.y);
  put(20, launch.blocks.z * launch.threads.z);
  put(24, kernel.scratch_bytes);
  put(28, kernel.lds_bytes + launch.dynamic_lds);
  put(40, arguments);
  return packet;
}

}  // namespace backplane::hip::isa
