// A hash table of the parts that an exchange waits for, and of those that have arrived. Used by MessageMesh only.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_PART_TABLE_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_PART_TABLE_H_

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "sdk/backend/processes/launch_exchange.h"

namespace backplane {

// A part of one exchange with one process.
struct PartKey {
  ExchangeKey key;
  int64_t part = 0;
  int32_t peer = 0;
  friend bool operator==(const PartKey&, const PartKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PartKey& k) {
    return H::combine(std::move(h), k.key, k.part, k.peer);
  }
};

// Entries of the caller, which have a `PartKey key`, not changed while they are in the table, and an `Entry* next` for
// the table. No function throws: without memory for more chains the chains get longer. So the table is valid whatever
// happens, which the hash tables of abseil are not when an allocation fails.
template <typename Entry>
class PartTable {
 public:
  PartTable() = default;
  PartTable(const PartTable&) = delete;
  PartTable& operator=(const PartTable&) = delete;

  // Adds an entry whose key is not in the table.
  void Add(Entry* entry) noexcept {
    if (++size_ > 2 * chains().size()) Grow();
    Entry*& chain = GetChain(entry->key);
    entry->next = chain;
    chain = entry;
  }
  Entry* Find(const PartKey& key) noexcept { return *Locate(key); }
  // Takes the entry out of the table and returns it; null: there is none.
  Entry* Remove(const PartKey& key) noexcept {
    Entry** const at = Locate(key);
    Entry* const entry = *at;
    if (entry == nullptr) return nullptr;
    *at = entry->next;
    --size_;
    return entry;
  }
  // Whether `is` is true for one of the entries.
  template <typename Predicate>
  bool Any(Predicate&& is) noexcept {
    for (Entry* const chain : chains()) {
      for (const Entry* entry = chain; entry != nullptr; entry = entry->next) {
        if (is(*entry)) return true;
      }
    }
    return false;
  }
  // Takes out all entries and calls `use` for each.
  template <typename Use>
  void RemoveAll(Use&& use) {
    size_ = 0;
    for (Entry*& chain : chains()) {
      while (Entry* const entry = chain) {
        chain = entry->next;
        use(entry);
      }
    }
  }

 private:
  absl::Span<Entry*> chains() { return many_.empty() ? absl::MakeSpan(few_) : absl::MakeSpan(many_); }
  Entry*& GetChain(const PartKey& key) noexcept { return chains()[absl::HashOf(key) % chains().size()]; }
  Entry** Locate(const PartKey& key) noexcept {
    Entry** at = &GetChain(key);
    while (*at != nullptr && !((*at)->key == key)) at = &(*at)->next;
    return at;
  }
  void Grow() noexcept {
    std::vector<Entry*> more;
    try {
      more.resize(8 * chains().size());
    } catch (...) {
      return;
    }
    const size_t size = size_;
    Entry* all = nullptr;
    RemoveAll([&](Entry* entry) { entry->next = std::exchange(all, entry); });
    many_ = std::move(more);
    size_ = size;
    while (Entry* const entry = all) {
      all = entry->next;
      Entry*& chain = GetChain(entry->key);
      entry->next = chain;
      chain = entry;
    }
  }

  std::array<Entry*, 16> few_{};
  std::vector<Entry*> many_;  // used instead when it is not empty
  size_t size_ = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_PART_TABLE_H_
