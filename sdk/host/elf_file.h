// What a shared library needs and offers, read from its file without loading it.
#ifndef BACKPLANE_SDK_HOST_ELF_FILE_H_
#define BACKPLANE_SDK_HOST_ELF_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace backplane::host {

struct ElfSymbol {
  std::string name;
  char binding = 'G';  // G global, W weak, U unique in the process
  bool function = false;
};

struct ElfFile {
  std::string machine;  // "x86-64", "aarch64", or "machine N"
  std::string soname;
  std::vector<std::string> needed;   // libraries it names, in order
  std::vector<std::string> runpath;  // folders it brings along, $ORIGIN replaced
  std::vector<ElfSymbol> exported;   // what it defines for others, sorted by name
};

// 64-bit little-endian ELF with section headers. NOT_FOUND, or INVALID_ARGUMENT for other files and broken ones.
absl::StatusOr<ElfFile> ReadElf(const std::string& path);

bool Exports(const ElfFile& file, const std::string& symbol);

// Those of `file.needed` that lie in no folder the dynamic linker looks into: its run path, LD_LIBRARY_PATH, the
// folders of /etc/ld.so.conf, the standard ones. Needs of the libraries that were found are not followed.
std::vector<std::string> MissingLibraries(const ElfFile& file);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_ELF_FILE_H_
