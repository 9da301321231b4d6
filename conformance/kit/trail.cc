#include "conformance/kit/trail.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace backplane::conformance {

Trail* Trail::Create(int* fd) {
  *fd = memfd_create("conformance trail", 0);
  if (*fd < 0) return nullptr;
  if (ftruncate(*fd, sizeof(Trail)) != 0) return nullptr;
  return Open(*fd);
}

Trail* Trail::Open(int fd) {
  void* at = mmap(nullptr, sizeof(Trail), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Trail*>(at);  // zeroed, which is the empty state
}

void Trail::Close() { munmap(this, sizeof(Trail)); }

void Trail::Enter(const char* call) {
  std::strncpy(call_, call, sizeof(call_) - 1);
  inside_.store(1, std::memory_order_release);
}

void Trail::Leave() { inside_.store(0, std::memory_order_release); }

std::string Trail::Describe() const {
  if (call_[0] == 0) return "";
  const std::string name(call_, strnlen(call_, sizeof(call_) - 1));
  return absl::StrCat(inside_.load(std::memory_order_acquire) != 0 ? "in " : "after ", name);
}

void Trail::Clear() {
  std::memset(call_, 0, sizeof(call_));
  inside_ = 0;
}

}  // namespace backplane::conformance
