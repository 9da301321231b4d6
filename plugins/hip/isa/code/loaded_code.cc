#include "plugins/hip/isa/code/loaded_code.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "plugins/hip/isa/code/disassembler.h"
#include "plugins/hip/isa/code/metadata.h"
#include "plugins/hip/isa/code/parse.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {
namespace {

using Elf = llvm::object::ELFFile<llvm::object::ELF64LE>;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargestImage = 1ull << 30;

absl::Status MakeCodeObjectError(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("isa: not a code object of an AMD GPU: ", why));
}
absl::Status MakeCodeObjectError(llvm::Error error) { return MakeCodeObjectError(llvm::toString(std::move(error))); }

llvm::Expected<Elf> OpenElf(absl::string_view elf) { return Elf::create(llvm::StringRef(elf.data(), elf.size())); }

template <class T>
T ReadAt(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

}  // namespace

LoadedCode::LoadedCode() = default;
LoadedCode::~LoadedCode() = default;

absl::Status LoadedCode::Load(absl::string_view elf) {
  auto file = OpenElf(elf);
  if (!file) return MakeCodeObjectError(file.takeError());
  const auto& header = file->getHeader();
  if (header.e_ident[llvm::ELF::EI_CLASS] != llvm::ELF::ELFCLASS64)
    return MakeCodeObjectError("the ELF file is not of 64 bits");
  if (header.e_machine != llvm::ELF::EM_AMDGPU) {
    return MakeCodeObjectError(
        absl::StrCat("the ELF machine is ", static_cast<int>(header.e_machine), " instead of 224"));
  }
  if (header.e_type != llvm::ELF::ET_DYN) return MakeCodeObjectError("the ELF file is not linked (ET_DYN)");
  const int version = header.e_ident[llvm::ELF::EI_ABIVERSION];
  if (version != llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V4 && version != llvm::ELF::ELFABIVERSION_AMDGPU_HSA_V5) {
    return absl::UnimplementedError(
        absl::StrCat("isa: code objects of version 4 and 5 are supported, not of ABI version ", version));
  }
  const unsigned mach = header.e_flags & llvm::ELF::EF_AMDGPU_MACH;
  if (mach == llvm::ELF::EF_AMDGPU_MACH_AMDGCN_GFX1100) {
    target_ = "gfx1100";
    machine_ = Machine::kGfx1100;
  } else if (mach == llvm::ELF::EF_AMDGPU_MACH_AMDGCN_GFX942) {
    target_ = "gfx942";
    machine_ = Machine::kGfx942;
  } else {
    return absl::UnimplementedError(absl::StrCat("isa: gfx942 and gfx1100 are supported, not machine 0x",
                                                 absl::Hex(mach), " of LLVM's EF_AMDGPU_MACH"));
  }
  auto disassembler = Disassembler::Create(target_);
  if (!disassembler.ok()) return disassembler.status();
  disassembler_ = *std::move(disassembler);
  for (auto step :
       {&LoadedCode::LoadSegments, &LoadedCode::ReadSymbols, &LoadedCode::Relocate, &LoadedCode::ReadMetadata}) {
    if (absl::Status s = (this->*step)(elf); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status LoadedCode::LoadSegments(absl::string_view elf) {
  auto file = OpenElf(elf);
  if (!file) return MakeCodeObjectError(file.takeError());
  auto segments = file->program_headers();
  if (!segments) return MakeCodeObjectError(segments.takeError());
  uint64_t end = 0;
  for (const auto& s : *segments) {
    if (s.p_type != llvm::ELF::PT_LOAD) continue;
    if (s.p_filesz > s.p_memsz || s.p_offset > elf.size() || s.p_filesz > elf.size() - s.p_offset ||
        s.p_vaddr > kLargestImage || s.p_memsz > kLargestImage) {
      return MakeCodeObjectError("a segment exceeds the file");
    }
    end = std::max<uint64_t>(end, s.p_vaddr + s.p_memsz);
  }
  if (end == 0) return MakeCodeObjectError("there is no segment to load");
  memory_.assign(end + kPage, 0);
  base_ = (reinterpret_cast<uint64_t>(memory_.data()) + kPage - 1) & ~(kPage - 1);
  image_bytes_ = end;
  for (const auto& s : *segments) {
    if (s.p_type == llvm::ELF::PT_LOAD) {
      std::memcpy(reinterpret_cast<uint8_t*>(base_) + s.p_vaddr, elf.data() + s.p_offset, s.p_filesz);
    }
  }
  return absl::OkStatus();
}

absl::Status LoadedCode::ReadSymbols(absl::string_view elf) {
  auto file = OpenElf(elf);
  if (!file) return MakeCodeObjectError(file.takeError());
  auto sections = file->sections();
  if (!sections) return MakeCodeObjectError(sections.takeError());
  for (const auto& section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_SYMTAB && section.sh_type != llvm::ELF::SHT_DYNSYM) continue;
    auto names = file->getStringTableForSymtab(section);
    if (!names) return MakeCodeObjectError(names.takeError());
    auto symbols = file->symbols(&section);
    if (!symbols) return MakeCodeObjectError(symbols.takeError());
    for (const auto& symbol : *symbols) {
      auto name = symbol.getName(*names);
      if (!name) return MakeCodeObjectError(name.takeError());
      if (symbol.st_shndx == llvm::ELF::SHN_UNDEF || name->empty()) continue;
      if (symbol.st_value > image_bytes_ || symbol.st_size > image_bytes_ - symbol.st_value) {
        return MakeCodeObjectError(absl::StrCat("the symbol ", name->str(), " exceeds the image"));
      }
      symbols_[name->str()] = base_ + symbol.st_value;
      if (symbol.getType() == llvm::ELF::STT_FUNC && symbol.st_size > 0) {
        ranges_[base_ + symbol.st_value] = {name->str(), symbol.st_size};
      }
    }
  }
  return absl::OkStatus();
}

absl::Status LoadedCode::Relocate(absl::string_view elf) {
  auto file = OpenElf(elf);
  if (!file) return MakeCodeObjectError(file.takeError());
  auto sections = file->sections();
  if (!sections) return MakeCodeObjectError(sections.takeError());
  for (const auto& section : *sections) {
    if (section.sh_type == llvm::ELF::SHT_REL) return absl::UnimplementedError("isa: relocations without addends");
    if (section.sh_type != llvm::ELF::SHT_RELA || (section.sh_flags & llvm::ELF::SHF_ALLOC) == 0) continue;
    auto relocations = file->relas(section);
    if (!relocations) return MakeCodeObjectError(relocations.takeError());
    auto table = file->getSection(section.sh_link);
    if (!table) return MakeCodeObjectError(table.takeError());
    for (const auto& r : *relocations) {
      if (r.r_offset > image_bytes_ || image_bytes_ - r.r_offset < 8)
        return MakeCodeObjectError("a relocation exceeds the image");
      uint64_t value = base_ + r.r_addend;
      const uint32_t type = r.getType(false);
      if (type == llvm::ELF::R_AMDGPU_ABS64) {
        auto symbol = file->getRelocationSymbol(r, *table);
        if (!symbol) return MakeCodeObjectError(symbol.takeError());
        if (*symbol == nullptr || (*symbol)->st_shndx == llvm::ELF::SHN_UNDEF) {
          return absl::UnimplementedError("isa: a relocation against a symbol that the code object does not define");
        }
        value += (*symbol)->st_value;
      } else if (type != llvm::ELF::R_AMDGPU_RELATIVE64) {
        return absl::UnimplementedError(absl::StrCat("isa: relocations of type ", type));
      }
      std::memcpy(reinterpret_cast<uint8_t*>(base_) + r.r_offset, &value, sizeof(value));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadedCode::ReadMetadata(absl::string_view elf) {
  auto file = OpenElf(elf);
  if (!file) return MakeCodeObjectError(file.takeError());
  auto segments = file->program_headers();
  if (!segments) return MakeCodeObjectError(segments.takeError());
  std::vector<KernelMetadata> kernels;
  for (const auto& segment : *segments) {
    if (segment.p_type != llvm::ELF::PT_NOTE) continue;
    llvm::Error error = llvm::Error::success();
    for (const auto& note : file->notes(segment, error)) {
      if (note.getName() != "AMDGPU" || note.getType() != llvm::ELF::NT_AMDGPU_METADATA) continue;
      const llvm::StringRef blob = note.getDescAsStringRef(segment.p_align == 8 ? 8 : 4);
      if (absl::Status s = AppendKernelMetadata(absl::string_view(blob.data(), blob.size()), kernels); !s.ok())
        return s;
    }
    if (error) return MakeCodeObjectError(std::move(error));
  }
  for (KernelMetadata& k : kernels) {
    auto symbol = symbols_.find(k.descriptor_symbol);
    if (symbol == symbols_.end())
      return MakeCodeObjectError(absl::StrCat("the symbol ", k.descriptor_symbol, " is missing"));
    constexpr uint64_t kDescriptorBytes = 64;
    if (!Owns(symbol->second, kDescriptorBytes)) return MakeCodeObjectError("a kernel descriptor exceeds the image");
    const uint8_t* d = reinterpret_cast<const uint8_t*>(symbol->second);
    KernelDescriptor descriptor;
    descriptor.lds_bytes = ReadAt<uint32_t>(d);
    descriptor.scratch_bytes = ReadAt<uint32_t>(d + 4);
    descriptor.entry = symbol->second + ReadAt<int64_t>(d + 16);
    descriptor.resource3 = ReadAt<uint32_t>(d + 44);
    descriptor.resource1 = ReadAt<uint32_t>(d + 48);
    descriptor.resource2 = ReadAt<uint32_t>(d + 52);
    descriptor.properties = ReadAt<uint16_t>(d + 56);
    descriptor.preload = ReadAt<uint16_t>(d + 58);
    descriptors_.push_back(descriptor);
    dynamic_stack_.push_back(k.uses_dynamic_stack);
    kernels_.push_back(std::move(k.info));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LoadedCode::FindSymbolAddress(absl::string_view name) const {
  auto at = symbols_.find(name);
  if (at == symbols_.end()) return absl::NotFoundError(absl::StrCat("isa: the code object has no symbol ", name));
  return at->second;
}

const Function* LoadedCode::FunctionAt(uint64_t address) const {
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return nullptr;
  --range;
  if (address - range->first >= range->second.bytes) return nullptr;
  MutexLock lock(mu_);
  std::unique_ptr<Function>& function = functions_[range->first];
  if (function != nullptr) return function.get();
  function = std::make_unique<Function>();
  Function& f = *function;
  f.name = range->second.name;
  f.address = range->first;
  f.bytes = range->second.bytes;
  f.index_of_word.assign((f.bytes + 3) / 4, Function::kNoInstruction);
  const uint8_t* code = reinterpret_cast<const uint8_t*>(f.address);
  for (uint64_t at = 0; at + 4 <= f.bytes;) {
    DisassembledInstruction d = disassembler_->At(absl::MakeConstSpan(code + at, f.bytes - at), f.address + at);
    Instruction& i = f.code.emplace_back();
    f.index_of_word[at / 4] = static_cast<uint32_t>(f.code.size() - 1);
    i.address = f.address + at;
    i.bytes = static_cast<uint8_t>(d.bytes);
    i.text = std::move(d.text);
    std::memcpy(i.words, code + at, std::min<uint64_t>(d.bytes, sizeof(i.words)));
    i.next = static_cast<uint32_t>(f.code.size());
    absl::Status s = i.text.empty()
                         ? absl::UnimplementedError(absl::StrCat("the bytes 0x", absl::Hex(i.words[0], absl::kZeroPad8),
                                                                 " are no instruction of ", target_))
                         : ParseInstruction(machine_, i);
    if (!s.ok()) {
      i.error = std::string(s.message());
      i.execute = [](Wave& wave, const Instruction& unknown) { wave.Fail(absl::UnimplementedError(unknown.error)); };
    }
    at += d.bytes;
  }
  for (Instruction& i : f.code) {
    const int64_t offset = (static_cast<int64_t>(static_cast<int16_t>(i.words[0])) + 1) * 4;
    i.target = f.FindIndex(i.address + static_cast<uint64_t>(offset));
  }
  // Behind the last instruction stands one that fails, so that execution cannot run out of the function.
  Instruction& end = f.code.emplace_back();
  end.address = f.address + f.bytes;
  end.text = "(the end of the function)";
  end.execute = [](Wave& wave, const Instruction&) {
    wave.Fail(absl::FailedPreconditionError("the program counter leaves the function's code"));
  };
  return &f;
}

absl::StatusOr<std::unique_ptr<CodeObject>> LoadCodeObject(absl::string_view elf) {
  auto code = std::make_unique<LoadedCode>();
  if (absl::Status s = code->Load(elf); !s.ok()) return s;
  return code;
}

}  // namespace backplane::hip::isa
