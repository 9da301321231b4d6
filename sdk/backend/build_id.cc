#include "sdk/backend/build_id.h"

#include <link.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane {
namespace {

struct BuildIdSearch {
  uintptr_t address;  // of code in the object that is looked for
  std::string id;
};

// Returns the build id among the notes in `notes`, in hexadecimal; empty: there is none.
std::string FindBuildIdNote(absl::string_view notes) {
  ElfW(Nhdr) header;
  const auto align = [](size_t size) { return (size + 3) / 4 * 4; };
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const size_t name_size = align(header.n_namesz), size = name_size + align(header.n_descsz);
    if (size > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, header.n_namesz) == absl::string_view("GNU", 4))
      return absl::BytesToHexString(notes.substr(name_size, header.n_descsz));
    notes.remove_prefix(size);
  }
  return "";
}

int VisitObject(dl_phdr_info* object, size_t, void* data) {
  auto* search = static_cast<BuildIdSearch*>(data);
  const absl::Span<const ElfW(Phdr)> segments(object->dlpi_phdr, object->dlpi_phnum);
  bool contains = false;
  for (const ElfW(Phdr) & s : segments) {
    const uintptr_t begin = object->dlpi_addr + s.p_vaddr;
    contains |= s.p_type == PT_LOAD && search->address >= begin && search->address < begin + s.p_memsz;
  }
  if (!contains) return 0;
  for (const ElfW(Phdr) & s : segments) {
    if (s.p_type != PT_NOTE || !search->id.empty()) continue;
    search->id = FindBuildIdNote({reinterpret_cast<const char*>(object->dlpi_addr + s.p_vaddr), s.p_memsz});
  }
  return 1;
}

}  // namespace

const std::string& BuildId() {
  static const auto* const id = [] {
    BuildIdSearch search{reinterpret_cast<uintptr_t>(&BuildId), ""};
    dl_iterate_phdr(&VisitObject, &search);
    return new std::string(search.id.empty() ? "none" : std::move(search.id));
  }();
  return *id;
}

}  // namespace backplane
