#include "plugins/hip/isa/code/metadata.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/code/message_pack.h"

namespace backplane::hip::isa {
namespace {

using Kind = PackedValue::Kind;

absl::Status MakeMetadataError(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("isa: the metadata of the code object: ", what));
}

// Leaves `to` as it is if there is no such field.
absl::Status ReadUint(const PackedValue& map, absl::string_view name, uint32_t& to) {
  const PackedValue* v = map.Find(name);
  if (v == nullptr) return absl::OkStatus();
  if (v->kind != Kind::kInteger || v->integer < 0 || v->integer > std::numeric_limits<uint32_t>::max()) {
    return MakeMetadataError(absl::StrCat(name, " is no number of 32 bits"));
  }
  to = static_cast<uint32_t>(v->integer);
  return absl::OkStatus();
}

absl::Status ReadString(const PackedValue& map, absl::string_view name, std::string& to) {
  const PackedValue* v = map.Find(name);
  if (v == nullptr || v->kind != Kind::kString)
    return MakeMetadataError(absl::StrCat(name, " is missing or no string"));
  to = v->text;
  return absl::OkStatus();
}

absl::Status ReadKernel(const PackedValue& map, KernelMetadata& k) {
  if (absl::Status s = ReadString(map, ".name", k.info.name); !s.ok()) return s;
  if (absl::Status s = ReadString(map, ".symbol", k.descriptor_symbol); !s.ok()) return s;
  const std::pair<const char*, uint32_t*> fields[] = {{".kernarg_segment_size", &k.info.kernarg_bytes},
                                                      {".group_segment_fixed_size", &k.info.lds_bytes},
                                                      {".private_segment_fixed_size", &k.info.scratch_bytes},
                                                      {".vgpr_count", &k.info.vgprs},
                                                      {".agpr_count", &k.info.agprs},
                                                      {".sgpr_count", &k.info.sgprs},
                                                      {".vgpr_spill_count", &k.info.vgpr_spills},
                                                      {".sgpr_spill_count", &k.info.sgpr_spills},
                                                      {".wavefront_size", &k.info.wave_size},
                                                      {".max_flat_workgroup_size", &k.info.max_block_threads}};
  for (const auto& [name, to] : fields) {
    if (absl::Status s = ReadUint(map, name, *to); !s.ok()) return s;
  }
  if (const PackedValue* v = map.Find(".uses_dynamic_stack"); v != nullptr && v->kind == Kind::kBool) {
    k.uses_dynamic_stack = v->integer != 0;
  }
  const PackedValue* arguments = map.Find(".args");
  if (arguments == nullptr) return absl::OkStatus();
  for (const PackedValue& a : arguments->items) {
    KernelArgument argument;
    if (absl::Status s = ReadString(a, ".value_kind", argument.value_kind); !s.ok()) return s;
    if (absl::Status s = ReadUint(a, ".offset", argument.offset); !s.ok()) return s;
    if (absl::Status s = ReadUint(a, ".size", argument.size); !s.ok()) return s;
    if (argument.offset > k.info.kernarg_bytes || argument.size > k.info.kernarg_bytes - argument.offset) {
      return MakeMetadataError(absl::StrCat("an argument of ", k.info.name, " exceeds the kernel's arguments"));
    }
    k.info.arguments.push_back(std::move(argument));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendKernelMetadata(absl::string_view blob, std::vector<KernelMetadata>& kernels) {
  auto root = ReadMessagePack(blob);
  if (!root.ok()) return root.status();
  const PackedValue* list = root->Find("amdhsa.kernels");
  if (list == nullptr || list->kind != Kind::kArray) return MakeMetadataError("amdhsa.kernels is missing");
  for (const PackedValue& k : list->items) {
    KernelMetadata kernel;
    if (absl::Status s = ReadKernel(k, kernel); !s.ok()) return s;
    kernels.push_back(std::move(kernel));
  }
  return absl::OkStatus();
}

}  // namespace backplane::hip::isa
