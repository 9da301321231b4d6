#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELFObjectFile.h"
#include "plugins/hip/lowering/amd_kernels.h"
#include "plugins/hip/lowering/amd_machine.h"

namespace backplane::hip {
namespace {

using AmdElf = llvm::object::ELF64LE;

template <typename T>
absl::StatusOr<T> ValueOf(llvm::Expected<T> expected, absl::string_view what) {
  if (expected) return std::move(*expected);
  return absl::InternalError(
      absl::StrCat("lowering: ", what, " of a code object: ", llvm::toString(expected.takeError())));
}

// Finds the MessagePack document of the note that describes the kernels.
absl::StatusOr<std::string> FindMetadata(const llvm::object::ELFFile<AmdElf>& elf) {
  ASSIGN_OR_RETURN(auto segments, ValueOf(elf.program_headers(), "segments"));
  for (const auto& segment : segments) {
    if (segment.p_type != llvm::ELF::PT_NOTE) continue;
    llvm::Error error = llvm::Error::success();
    std::string found;
    for (const auto& note : elf.notes(segment, error)) {
      if (note.getName() == "AMDGPU" && note.getType() == llvm::ELF::NT_AMDGPU_METADATA) {
        found = note.getDescAsStringRef(/*Align=*/4).str();
      }
    }
    if (error) return absl::InternalError(absl::StrCat("lowering: notes: ", llvm::toString(std::move(error))));
    if (!found.empty()) return found;
  }
  return absl::InternalError("lowering: a code object without a note of its kernels");
}

int NumberOf(llvm::msgpack::MapDocNode& map, llvm::StringRef key) {
  auto found = map.find(key);
  if (found == map.end()) return -1;
  if (found->second.getKind() == llvm::msgpack::Type::UInt) return static_cast<int>(found->second.getUInt());
  if (found->second.getKind() == llvm::msgpack::Type::Int) return static_cast<int>(found->second.getInt());
  return -1;
}

KernelResources ReadKernel(llvm::msgpack::MapDocNode& map, const AmdMachine& machine) {
  KernelResources r;
  r.threads = NumberOf(map, ".max_flat_workgroup_size");
  r.vgprs = NumberOf(map, ".vgpr_count");
  r.agprs = std::max(NumberOf(map, ".agpr_count"), 0);  // absent where there are none
  r.sgprs = NumberOf(map, ".sgpr_count");
  r.shared_bytes = NumberOf(map, ".group_segment_fixed_size");
  r.scratch_bytes = NumberOf(map, ".private_segment_fixed_size");
  r.spilled_registers = NumberOf(map, ".vgpr_spill_count") + NumberOf(map, ".sgpr_spill_count");
  r.occupancy = ComputeOccupancy(machine, r.threads, r.vgprs, r.shared_bytes);
  return r;
}

}  // namespace

absl::StatusOr<std::vector<KernelResources>> ReadAmdResources(const std::string& code_object,
                                                              const std::vector<std::string>& kernels,
                                                              const GpuTarget& target) {
  const AmdMachine* machine = FindAmdMachine(target.name);
  if (machine == nullptr) return absl::InternalError(absl::StrCat("lowering: no AMD machine ", target.name));
  ASSIGN_OR_RETURN(auto elf, ValueOf(llvm::object::ELFFile<AmdElf>::create(code_object), "header"));
  ASSIGN_OR_RETURN(const std::string metadata, FindMetadata(elf));
  llvm::msgpack::Document document;
  if (!document.readFromBlob(metadata, /*Multi=*/false) || !document.getRoot().isMap()) {
    return absl::InternalError("lowering: the note of a code object's kernels is no msgpack map");
  }
  absl::flat_hash_map<std::string, KernelResources> found;
  llvm::msgpack::DocNode& list = document.getRoot().getMap()["amdhsa.kernels"];
  if (!list.isArray()) return absl::InternalError("lowering: the note of a code object lists no kernels");
  for (llvm::msgpack::DocNode& node : list.getArray()) {
    if (!node.isMap()) continue;
    llvm::msgpack::DocNode& name = node.getMap()[".name"];
    if (name.getKind() == llvm::msgpack::Type::String)
      found[name.getString().str()] = ReadKernel(node.getMap(), *machine);
  }

  ASSIGN_OR_RETURN(auto sections, ValueOf(elf.sections(), "sections"));
  for (const auto& section : sections) {
    if (section.sh_type != llvm::ELF::SHT_DYNSYM) continue;
    ASSIGN_OR_RETURN(auto symbols, ValueOf(elf.symbols(&section), "symbols"));
    ASSIGN_OR_RETURN(auto names, ValueOf(elf.getStringTableForSymtab(section), "symbols' names"));
    for (const auto& symbol : symbols) {
      if (symbol.getType() != llvm::ELF::STT_FUNC) continue;
      ASSIGN_OR_RETURN(llvm::StringRef name, ValueOf(symbol.getName(names), "a symbol's name"));
      auto kernel = found.find(name.str());
      if (kernel != found.end()) kernel->second.code_bytes = static_cast<int>(symbol.st_size);
    }
  }

  std::vector<KernelResources> result;
  for (const std::string& name : kernels) {
    auto kernel = found.find(name);
    if (kernel == found.end()) {
      return absl::InternalError(absl::StrCat("lowering: the code object does not describe kernel ", name));
    }
    result.push_back(kernel->second);
    result.back().name = name;
  }
  return result;
}

}  // namespace backplane::hip
