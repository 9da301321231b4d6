#include "plugins/hip/emulated_runtime/kernel_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace backplane::hip::emulated {
namespace {

constexpr uint16_t kMachineAmdGpu = 224;  // EM_AMDGPU

// The largest file that is believed: an address is all that the interface passes.
constexpr uint64_t kMaxImageBytes = uint64_t{1} << 32;

// Copies a structure out of the file; false if it is not within it.
template <typename T>
bool ReadElf(absl::string_view elf, uint64_t offset, T* value) {
  if (offset > elf.size() || sizeof(T) > elf.size() - offset) return false;
  std::memcpy(value, elf.data() + offset, sizeof(T));
  return true;
}

}  // namespace

absl::StatusOr<absl::string_view> MeasureElf(const void* image) {
  const char* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError("the image does not begin as an ELF file does");
  }
  if (bytes[EI_CLASS] != ELFCLASS64 || bytes[EI_DATA] != ELFDATA2LSB) {
    return absl::InvalidArgumentError("the image is an ELF file, but not one of 64 bits, little endian");
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      header.e_phoff > kMaxImageBytes || header.e_shoff > kMaxImageBytes) {
    return absl::InvalidArgumentError("the image is an ELF file whose headers have wrong sizes");
  }
  uint64_t end = std::max<uint64_t>({sizeof header, header.e_phoff + uint64_t{header.e_phnum} * sizeof(Elf64_Phdr),
                                     header.e_shoff + uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)});
  const auto include = [&](uint64_t offset, uint64_t size) {
    if (offset > kMaxImageBytes || size > kMaxImageBytes) return false;
    end = std::max(end, offset + size);
    return true;
  };
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!include(segment.p_offset, segment.p_filesz)) {
      return absl::InvalidArgumentError(absl::StrCat("segment ", i, " of the image is longer than any file"));
    }
  }
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !include(section.sh_offset, section.sh_size)) {
      return absl::InvalidArgumentError(absl::StrCat("section ", i, " of the image is longer than any file"));
    }
  }
  return absl::string_view(bytes, end);
}

bool IsAmdCodeObject(absl::string_view elf) {
  Elf64_Ehdr header;
  return ReadElf(elf, 0, &header) && header.e_machine == kMachineAmdGpu;
}

std::optional<ElfSymbol> FindElfSymbol(absl::string_view elf, absl::string_view name) {
  Elf64_Ehdr header;
  if (!ReadElf(elf, 0, &header)) return std::nullopt;
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, strings;
    if (!ReadElf(elf, header.e_shoff + i * sizeof table, &table) || table.sh_type != SHT_DYNSYM) continue;
    if (!ReadElf(elf, header.e_shoff + table.sh_link * sizeof strings, &strings)) continue;
    if (strings.sh_offset > elf.size() || strings.sh_size > elf.size() - strings.sh_offset) continue;
    const absl::string_view text = elf.substr(strings.sh_offset, strings.sh_size);
    for (uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= table.sh_size; offset += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!ReadElf(elf, table.sh_offset + offset, &symbol)) break;
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= text.size()) continue;
      const absl::string_view rest = text.substr(symbol.st_name);
      if (rest.substr(0, rest.find('\0')) == name) return ElfSymbol{symbol.st_value, symbol.st_size};
    }
  }
  return std::nullopt;
}

}  // namespace backplane::hip::emulated
