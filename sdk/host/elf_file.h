// Reads the dependencies and the exported symbols of a shared library from its file, without loading it.
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
  std::vector<std::string> needed;   // required libraries, in order
  std::vector<std::string> runpath;  // search folders, with $ORIGIN replaced
  std::vector<ElfSymbol> exported;   // symbols that it defines for others, sorted by name
};

// Reads a 64-bit little-endian ELF file with section headers. Returns NOT_FOUND if there is no such file, and
// INVALID_ARGUMENT for other and damaged files.
absl::StatusOr<ElfFile> ReadElf(const std::string& path);

bool Exports(const ElfFile& file, const std::string& symbol);

// Returns those of `file.needed` that the dynamic linker would not find: in the run path, LD_LIBRARY_PATH, the folders
// of /etc/ld.so.conf and the standard ones. Dependencies of the libraries found are not checked.
std::vector<std::string> FindMissingLibraries(const ElfFile& file);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_ELF_FILE_H_
