#include "plugins/hip/isa/code/metadata.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"

namespace backplane::hip::isa {
namespace {

using llvm::msgpack::DocNode;
using llvm::msgpack::MapDocNode;

absl::Status BadMetadata(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("isa: the metadata of the code object: ", what));
}

DocNode* FindField(MapDocNode& map, const char* name) {
  auto at = map.find(name);
  return at == map.end() ? nullptr : &at->second;
}

// Leaves `to` as it is if there is no such field.
absl::Status ReadUint(MapDocNode& map, const char* name, uint32_t& to) {
  DocNode* n = FindField(map, name);
  if (n == nullptr) return absl::OkStatus();
  uint64_t v = 0;
  if (n->getKind() == llvm::msgpack::Type::UInt) {
    v = n->getUInt();
  } else if (n->getKind() == llvm::msgpack::Type::Int && n->getInt() >= 0) {
    v = static_cast<uint64_t>(n->getInt());
  } else {
    return BadMetadata(absl::StrCat(name, " is no number"));
  }
  if (v > std::numeric_limits<uint32_t>::max()) return BadMetadata(absl::StrCat(name, " is ", v));
  to = static_cast<uint32_t>(v);
  return absl::OkStatus();
}

absl::Status ReadString(MapDocNode& map, const char* name, std::string& to) {
  DocNode* n = FindField(map, name);
  if (n == nullptr || !n->isString()) return BadMetadata(absl::StrCat(name, " is missing or no string"));
  to = n->getString().str();
  return absl::OkStatus();
}

absl::Status ReadKernel(MapDocNode& map, KernelMetadata& k) {
  if (absl::Status s = ReadString(map, ".name", k.info.name); !s.ok()) return s;
  if (absl::Status s = ReadString(map, ".symbol", k.descriptor_symbol); !s.ok()) return s;
  const std::pair<const char*, uint32_t*> fields[] = {
      {".kernarg_segment_size", &k.info.kernarg_bytes}, {".group_segment_fixed_size", &k.info.lds_bytes},
      {".private_segment_fixed_size", &k.info.scratch_bytes}, {".vgpr_count", &k.info.vgprs},
      {".agpr_count", &k.info.agprs}, {".sgpr_count", &k.info.sgprs}, {".vgpr_spill_count", &k.info.vgpr_spills},
      {".sgpr_spill_count", &k.info.sgpr_spills}, {".wavefront_size", &k.info.wave_size},
      {".max_flat_workgroup_size", &k.info.max_block_threads}};
  for (const auto& [name, to] : fields) {
    if (absl::Status s = ReadUint(map, name, *to); !s.ok()) return s;
  }
  if (DocNode* n = FindField(map, ".uses_dynamic_stack"); n != nullptr && n->getKind() == llvm::msgpack::Type::Boolean) {
    k.uses_dynamic_stack = n->getBool();
  }
  DocNode* arguments = FindField(map, ".args");
  if (arguments == nullptr) return absl::OkStatus();
  if (!arguments->isArray()) return BadMetadata(".args is no array");
  for (DocNode& a : arguments->getArray()) {
    if (!a.isMap()) return BadMetadata("an argument is no map");
    KernelArgument argument;
    if (absl::Status s = ReadString(a.getMap(), ".value_kind", argument.value_kind); !s.ok()) return s;
    if (absl::Status s = ReadUint(a.getMap(), ".offset", argument.offset); !s.ok()) return s;
    if (absl::Status s = ReadUint(a.getMap(), ".size", argument.size); !s.ok()) return s;
    if (argument.offset > k.info.kernarg_bytes || argument.size > k.info.kernarg_bytes - argument.offset) {
      return BadMetadata(absl::StrCat("an argument of ", k.info.name, " exceeds the kernel's arguments"));
    }
    k.info.arguments.push_back(std::move(argument));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendKernelMetadata(absl::string_view blob, std::vector<KernelMetadata>& kernels) {
  llvm::msgpack::Document document;
  if (!document.readFromBlob(llvm::StringRef(blob.data(), blob.size()), /*Multi=*/false)) {
    return BadMetadata("it is no MessagePack");
  }
  if (!document.getRoot().isMap()) return BadMetadata("it is no map");
  DocNode* list = FindField(document.getRoot().getMap(), "amdhsa.kernels");
  if (list == nullptr || !list->isArray()) return BadMetadata("amdhsa.kernels is missing");
  for (DocNode& k : list->getArray()) {
    if (!k.isMap()) return BadMetadata("a kernel is no map");
    KernelMetadata kernel;
    if (absl::Status s = ReadKernel(k.getMap(), kernel); !s.ok()) return s;
    kernels.push_back(std::move(kernel));
  }
  return absl::OkStatus();
}

}  // namespace backplane::hip::isa
