// Allocates blocks of one size for objects that are created and destroyed in large numbers: the buffers that a program
// returns, with their storages. A program with a hundred outputs creates and destroys a hundred of each in every call.
// The C library keeps only a few free blocks of a size for each thread, and searches and merges the others.
//
// Each thread keeps up to kMostKept free blocks, whichever thread has allocated them; the others go to the C++ heap.
// With a sanitizer every block does, so that it finds uses after the end.
#ifndef BACKPLANE_SDK_BACKEND_BLOCK_CACHE_H_
#define BACKPLANE_SDK_BACKEND_BLOCK_CACHE_H_

#include <cstddef>
#include <new>

#include "absl/base/config.h"

namespace backplane {

#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER) || defined(ABSL_HAVE_MEMORY_SANITIZER)
inline constexpr bool kCacheBlocks = false;
#else
inline constexpr bool kCacheBlocks = true;
#endif

template <size_t kBytes>
class BlockCache {
 public:
  static constexpr int kMostKept = 256;  // by each thread

  // Throws std::bad_alloc if there is no memory.
  static void* Allocate() {
    if (kept_.first == nullptr) return ::operator new(kBytes);
    Block* block = kept_.first;
    kept_.first = block->next;
    --kept_.count;
    return block;
  }

  static void Free(void* block) {
    if (!kCacheBlocks || kept_.count >= kMostKept || block == nullptr) return ::operator delete(block);
    if (kept_.first == nullptr) cleaner_.Create();
    kept_.first = new (block) Block{kept_.first};
    ++kept_.count;
  }

  // The number of free blocks that this thread keeps; kMostKept once the thread keeps none any more.
  static int CountKept() { return kept_.count; }

 private:
  struct Block {
    Block* next;
  };
  static_assert(kBytes >= sizeof(Block));
  // Has no destructor: objects may be destroyed after the cleaner, by destructors of other thread-local objects.
  struct Kept {
    Block* first = nullptr;
    int count = 0;
  };
  struct Cleaner {
    void Create() {}  // the first use in a thread creates the object
    ~Cleaner() {
      while (kept_.first != nullptr) ::operator delete(Allocate());
      kept_.count = kMostKept;  // no block is kept from now on
    }
  };
  static thread_local Kept kept_;
  static thread_local Cleaner cleaner_;
};

template <size_t kBytes>
thread_local constinit typename BlockCache<kBytes>::Kept BlockCache<kBytes>::kept_;
template <size_t kBytes>
thread_local typename BlockCache<kBytes>::Cleaner BlockCache<kBytes>::cleaner_;

// For std::allocate_shared.
template <typename T>
struct CachedAllocator {
  using value_type = T;
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  CachedAllocator() = default;
  template <typename U>
  CachedAllocator(const CachedAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t n) {
    return static_cast<T*>(n == 1 ? BlockCache<sizeof(T)>::Allocate() : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* block, size_t n) {
    if (n == 1)
      BlockCache<sizeof(T)>::Free(block);
    else
      ::operator delete(block);
  }
  template <typename U>
  bool operator==(const CachedAllocator<U>&) const {
    return true;
  }
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_BLOCK_CACHE_H_
