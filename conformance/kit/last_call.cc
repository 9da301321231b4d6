#include "conformance/kit/last_call.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace backplane::conformance {

LastCall* LastCall::Create(int* fd) {
  *fd = memfd_create("conformance last call", 0);
  if (*fd < 0) return nullptr;
  if (ftruncate(*fd, sizeof(LastCall)) != 0) return nullptr;
  return Open(*fd);
}

LastCall* LastCall::Open(int fd) {
  void* at = mmap(nullptr, sizeof(LastCall), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<LastCall*>(at);  // zeroed, which is the empty state
}

void LastCall::Close() { munmap(this, sizeof(LastCall)); }

void LastCall::Enter(const char* call) {
  std::strncpy(call_, call, sizeof(call_) - 1);
  inside_.store(1, std::memory_order_release);
}

void LastCall::Leave() { inside_.store(0, std::memory_order_release); }

std::string LastCall::Describe() const {
  if (call_[0] == 0) return "";
  const std::string name(call_, strnlen(call_, sizeof(call_) - 1));
  return absl::StrCat(inside_.load(std::memory_order_acquire) != 0 ? "in " : "after ", name);
}

void LastCall::Clear() {
  std::memset(call_, 0, sizeof(call_));
  inside_ = 0;
}

}  // namespace backplane::conformance
