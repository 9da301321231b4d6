// Tables of handles: numbers that look like pointers, are never given out twice and are checked at each use.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HANDLES_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HANDLES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/report.h"

namespace backplane::hip::emulated {

// Objects of one kind behind their handles. Thread-safe. An object lives while the table or anyone else holds it.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // `kind` is the name of an object in the report. `tag` has the upper bits of its handles and differs in each table.
  HandleTable(const char* kind, uint64_t tag) : kind_(kind), tag_(tag << 40) {}

  Handle Add(std::shared_ptr<Object> object) {
    MutexLock lock(mu_);
    const uint64_t number = tag_ + 16 * ++last_;
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle>(number);
  }

  // Returns null and reports the misuse if the handle is none of this table or was destroyed.
  std::shared_ptr<Object> Find(Handle handle) const {
    const uint64_t number = reinterpret_cast<uint64_t>(handle);
    MutexLock lock(mu_);
    if (const auto found = objects_.find(number); found != objects_.end()) return found->second;
    ReportMisuse(number);
    return nullptr;
  }

  // Takes the object out of the table. Returns null as Find does.
  std::shared_ptr<Object> Remove(Handle handle) {
    const uint64_t number = reinterpret_cast<uint64_t>(handle);
    MutexLock lock(mu_);
    const auto found = objects_.find(number);
    if (found == objects_.end()) {
      ReportMisuse(number);
      return nullptr;
    }
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<Object>> All() const {
    MutexLock lock(mu_);
    std::vector<std::shared_ptr<Object>> all;
    for (const auto& [number, object] : objects_) all.push_back(object);
    return all;
  }

  size_t size() const {
    MutexLock lock(mu_);
    return objects_.size();
  }

  void Clear() {
    std::map<uint64_t, std::shared_ptr<Object>> objects;  // destroyed without the lock
    MutexLock lock(mu_);
    objects.swap(objects_);
  }

 private:
  void ReportMisuse(uint64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool was_one = number > tag_ && number <= tag_ + 16 * last_ && number % 16 == 0;
    Report().Add(was_one ? absl::StrCat("freed handle: ", kind_, " ", (number - tag_) / 16, " was destroyed before")
                         : absl::StrCat("wrong handle: 0x", absl::Hex(number), " is no ", kind_));
  }

  const char* const kind_;
  const uint64_t tag_;
  mutable Mutex mu_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::shared_ptr<Object>> objects_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HANDLES_H_
