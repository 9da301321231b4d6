#include "sdk/host/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

namespace fs = std::filesystem;

// A file mapped to memory. Every read is checked against its size.
class Mapped {
 public:
  static absl::StatusOr<Mapped> Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
    struct stat info;
    void* data = MAP_FAILED;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (data == MAP_FAILED) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
    return Mapped(static_cast<const char*>(data), static_cast<size_t>(info.st_size));
  }
  Mapped(Mapped&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  ~Mapped() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }
  // Copies `count` objects of type T from `offset`. Returns false if they are not within the file.
  template <typename T>
  bool Read(uint64_t offset, uint64_t count, std::vector<T>* out) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) return false;
    out->resize(count);
    if (count > 0) std::memcpy(out->data(), data_ + offset, count * sizeof(T));
    return true;
  }
  // Returns the string at `at` in the string table.
  std::string Text(const Elf64_Shdr& table, uint64_t at) const {
    if (table.sh_offset > size_ || table.sh_size > size_ - table.sh_offset || at >= table.sh_size) return "";
    const char* begin = data_ + table.sh_offset + at;
    return std::string(begin, strnlen(begin, table.sh_size - at));
  }

 private:
  Mapped(const char* data, size_t size) : data_(data), size_(size) {}
  const char* data_;
  size_t size_;
};

std::string MachineName(int machine) {
  if (machine == EM_X86_64) return "x86-64";
  if (machine == EM_AARCH64) return "aarch64";
  return absl::StrCat("machine ", machine);
}

// Reads the folders in an ld.so.conf file and in the files that it includes, one level deep.
void ReadLinkerConfig(const fs::path& file, int depth, std::vector<std::string>* folders) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.empty()) continue;
    if (words[0] != "include") {
      folders->push_back(words[0]);
      continue;
    }
    if (words.size() < 2 || depth > 0) continue;
    std::error_code error;
    const fs::path pattern = words[1];  // "/etc/ld.so.conf.d/*.conf"
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(pattern.parent_path(), error)) {
      if (entry.path().extension() == pattern.extension()) files.insert(entry.path());
    }
    for (const fs::path& f : files) ReadLinkerConfig(f, depth + 1, folders);
  }
}

}  // namespace

absl::StatusOr<ElfFile> ReadElf(const std::string& path) {
  BP_ASSIGN_OR_RETURN(Mapped file, Mapped::Open(path));
  auto broken = [&](const char* what) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", what)); };
  std::vector<Elf64_Ehdr> head;
  if (!file.Read(0, 1, &head) || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0) return broken("not an ELF file");
  if (head[0].e_ident[EI_CLASS] != ELFCLASS64 || head[0].e_ident[EI_DATA] != ELFDATA2LSB) {
    return broken("not a 64-bit little-endian ELF file");
  }
  std::vector<Elf64_Shdr> sections;
  if (head[0].e_shentsize != sizeof(Elf64_Shdr) || !file.Read(head[0].e_shoff, head[0].e_shnum, &sections)) {
    return broken("ELF file without section headers, or cut short");
  }
  ElfFile elf;
  elf.machine = MachineName(head[0].e_machine);
  const std::string origin = fs::absolute(fs::path(path)).parent_path().string();
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    if (section.sh_type == SHT_DYNAMIC) {
      std::vector<Elf64_Dyn> entries;
      if (!file.Read(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn), &entries))
        return broken("ELF file cut short");
      for (const Elf64_Dyn& entry : entries) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_NEEDED) elf.needed.push_back(file.Text(strings, entry.d_un.d_val));
        if (entry.d_tag == DT_SONAME) elf.soname = file.Text(strings, entry.d_un.d_val);
        if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
          for (absl::string_view folder :
               absl::StrSplit(file.Text(strings, entry.d_un.d_val), ':', absl::SkipEmpty())) {
            elf.runpath.push_back(absl::StrReplaceAll(folder, {{"$ORIGIN", origin}, {"${ORIGIN}", origin}}));
          }
        }
      }
    }
    if (section.sh_type == SHT_DYNSYM) {
      std::vector<Elf64_Sym> symbols;
      if (!file.Read(section.sh_offset, section.sh_size / sizeof(Elf64_Sym), &symbols))
        return broken("ELF file cut short");
      for (const Elf64_Sym& symbol : symbols) {
        const int binding = ELF64_ST_BIND(symbol.st_info), visibility = ELF64_ST_VISIBILITY(symbol.st_other);
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || binding == STB_LOCAL) continue;
        if (visibility != STV_DEFAULT && visibility != STV_PROTECTED) continue;
        ElfSymbol out;
        out.name = file.Text(strings, symbol.st_name);
        out.binding = binding == STB_WEAK ? 'W' : binding == STB_GNU_UNIQUE ? 'U' : 'G';
        out.function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
        elf.exported.push_back(std::move(out));
      }
    }
  }
  std::sort(elf.exported.begin(), elf.exported.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return elf;
}

bool Exports(const ElfFile& file, const std::string& symbol) {
  return std::any_of(file.exported.begin(), file.exported.end(), [&](const ElfSymbol& s) { return s.name == symbol; });
}

std::vector<std::string> FindMissingLibraries(const ElfFile& file) {
  std::vector<std::string> folders = file.runpath;
  if (const char* path = secure_getenv("LD_LIBRARY_PATH"); path != nullptr) {
    for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) folders.emplace_back(folder);
  }
  ReadLinkerConfig("/etc/ld.so.conf", 0, &folders);
  for (const char* folder : {"/lib64", "/usr/lib64", "/lib", "/usr/lib"}) folders.push_back(folder);
  std::vector<std::string> missing;
  for (const std::string& name : file.needed) {
    std::error_code error;
    const bool found = std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
      return fs::exists(fs::path(folder) / name, error);
    });
    if (!found) missing.push_back(name);
  }
  return missing;
}

}  // namespace backplane::host
