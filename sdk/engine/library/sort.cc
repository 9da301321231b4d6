#include "sdk/engine/library/sort.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "sdk/engine/library/parallel.h"
#include "sdk/engine/library/radix.h"

namespace backplane::engine {
namespace {

constexpr int64_t kMinRadixSortSize = 96;       // shorter rows go to std::sort
constexpr int64_t kMinParallelRowSize = 65536;  // shorter rows are one thread's

enum class Method { kSingle, kPacked, kChunks, kComparator };

int KeyBits(const SortProblem& p) {
  int bits = 0;
  for (const SortKey& k : p.keys) bits += 8 * k.format.bytes;
  return bits;
}

Method MethodOf(const SortProblem& p) {
  if (p.keys.empty()) return Method::kComparator;
  if (p.operand_bytes.size() == 1 && p.keys.size() == 1 && p.keys[0].format.bytes == p.operand_bytes[0])
    return Method::kSingle;
  return KeyBits(p) <= 32 ? Method::kPacked : Method::kChunks;
}

// A key of up to 64 bits with the element's number and its place among elements that earlier passes have ordered.
struct Wide {
  uint64_t key;
  uint32_t index, place;
};

struct Bits128 {
  uint64_t low, high;
};

template <typename T>
T LoadAt(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

// A row: where each operand's line starts; an output that nobody wants is null.
struct Row {
  absl::InlinedVector<const std::byte*, 8> in;
  absl::InlinedVector<std::byte*, 8> out;
};

struct Scratch {
  std::byte* first;
  std::byte* second;
  uint32_t* counts;
};

// Columns are sorted as rows: so many neighbours are copied together into rows of this length in elements, not quite n,
// as rows a power of two apart would fight for the same lines of the cache.
int64_t GroupSize(const SortProblem& p) {
  if (p.inner <= 1) return 1;
  int64_t bytes = 0;
  for (int b : p.operand_bytes) bytes += b;
  return std::clamp<int64_t>((int64_t{1} << 19) / (p.n * bytes + 1), 1, std::min<int64_t>(16, p.inner));
}
int64_t GroupStride(const SortProblem& p) { return (p.n + 63) / 64 * 64 + 16; }

struct Sizes {
  int64_t first = 0, second = 0, counts = 0, group = 0;
  int64_t total() const { return first + second + counts + 2 * group; }
};

Sizes ScratchSizes(const SortProblem& p, int threads) {
  Sizes s;
  switch (MethodOf(p)) {
    case Method::kSingle:
      s.second = AlignTo64(p.n * p.operand_bytes[0]);  // the first is the output row itself
      break;
    case Method::kPacked:
      s.first = s.second = AlignTo64(p.n * 8);
      break;
    case Method::kChunks:
      s.first = s.second = AlignTo64(p.n * static_cast<int64_t>(sizeof(Wide)));
      break;
    case Method::kComparator:
      s.first = s.second = AlignTo64(p.n * 4);
      break;
  }
  s.counts = AlignTo64(4 * std::max<int64_t>(kCounts, int64_t{threads} << kMaxDigitBits));
  if (p.inner > 1) {
    for (int b : p.operand_bytes) s.group += AlignTo64(GroupSize(p) * GroupStride(p) * b);
  }
  return s;
}

bool RowInParallel(const SortProblem& p, ThreadPool* pool) {
  return p.n >= kMinParallelRowSize && p.outer * p.inner < 2 * PoolThreads(pool) && PoolThreads(pool) > 1;
}

class RowSorter {
 public:
  // pool: null when the row is to be sorted on this thread alone.
  RowSorter(const SortProblem& p, const Row& row, const Scratch& scratch, ThreadPool* pool)
      : p_(p), row_(row), scratch_(scratch), pool_(pool) {}

  void Run() {
    switch (MethodOf(p_)) {
      case Method::kSingle:
        return DispatchKey(p_.keys[0].format, [&]<typename U, int kMode>() { Single<U, kMode>(); });
      case Method::kPacked:
        return Packed();
      case Method::kChunks:
        return Chunks();
      case Method::kComparator:
        return Compared();
    }
  }

 private:
  template <typename E, typename KeyOf>
  E* Radix(E* a, E* b, int first_bit, int last_bit, KeyOf key_of) {
    if (pool_ != nullptr) return ParallelRadixSort(pool_, a, b, p_.n, first_bit, last_bit, key_of, scratch_.counts);
    return RadixSort(a, b, p_.n, first_bit, last_bit, key_of, scratch_.counts);
  }

  void Range(absl::FunctionRef<void(int64_t, int64_t)> fn) {
    ForRange(pool_, p_.n, 16384, [&](int64_t begin, int64_t end, int) { fn(begin, end); });
  }

  // One operand that is its own key: no numbers need to be carried. Elements that are equal as keys but not as bits
  // (zeros of both signs, NaNs) are put back afterwards in the order in which they came.
  template <typename U, int kMode>
  void Single() {
    const KeyMasks<U> masks(p_.keys[0].format);
    const U* in = reinterpret_cast<const U*>(row_.in[0]);
    U* out = reinterpret_cast<U*>(row_.out[0]);
    const int64_t n = p_.n;
    U* a = out;
    U* b = reinterpret_cast<U*>(scratch_.second);
    std::atomic<bool> changed{false};
    Range([&](int64_t begin, int64_t end) {
      U difference = 0;
      for (int64_t i = begin; i < end; ++i) {
        const U x = in[i];
        if constexpr (kMode == 2) difference |= static_cast<U>(masks.template Canonical<kMode>(x) ^ x);
        a[i] = masks.template Encode<kMode>(x);
      }
      if (difference != 0) changed = true;
    });
    U* sorted = a;
    if (n < kMinRadixSortSize) {
      std::sort(a, a + n);
    } else {
      sorted = Radix(a, b, 0, 8 * sizeof(U), [](U k) { return k; });
    }
    struct Run {
      int64_t begin, end;
    };
    auto equal = [&](U value) {
      const auto r = std::equal_range(sorted, sorted + n, masks.template Encode<kMode>(value));
      return Run{r.first - sorted, r.second - sorted};
    };
    Run zeros{}, nans{};
    if (changed) zeros = equal(U{0}), nans = equal(masks.nan);
    Range([&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = masks.template Decode<kMode>(sorted[i]);
    });
    if (!changed) return;
    for (int64_t i = 0, z = zeros.begin, m = nans.begin; i < n; ++i) {
      const U x = in[i], magnitude = static_cast<U>(x & ~KeyMasks<U>::kSign);
      if (magnitude == 0) out[z++] = x;
      if (magnitude > masks.infinity) out[m++] = x;
    }
  }

  // Calls fn(i, key bits) for the element numbers that `order` gives for [begin, end).
  template <typename Order, typename Put>
  bool EncodeKey(const SortKey& key, int64_t begin, int64_t end, Order order, Put put) {
    const std::byte* base = row_.in[key.operand] + key.byte_offset;
    const int64_t step = p_.operand_bytes[key.operand];
    return DispatchKey(key.format, [&]<typename U, int kMode>() {
      const KeyMasks<U> masks(key.format);
      U difference = 0;
      for (int64_t i = begin; i < end; ++i) {
        const U x = LoadAt<U>(base + order(i) * step);
        if constexpr (kMode == 2) difference |= static_cast<U>(masks.template Canonical<kMode>(x) ^ x);
        put(i, static_cast<uint64_t>(masks.template Encode<kMode>(x)));
      }
      return difference != 0;
    });
  }

  // All keys together in 32 bits, above the element's number: sorting such words is stable whatever the method.
  void Packed() {
    uint64_t* a = reinterpret_cast<uint64_t*>(scratch_.first);
    uint64_t* b = reinterpret_cast<uint64_t*>(scratch_.second);
    auto same = [](int64_t i) { return i; };
    std::atomic<bool> changed{false};
    Range([&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) a[i] = static_cast<uint64_t>(i);
      int shift = 32;
      for (size_t k = p_.keys.size(); k-- > 0;) {
        if (EncodeKey(p_.keys[k], begin, end, same, [a, shift](int64_t i, uint64_t bits) { a[i] |= bits << shift; }))
          changed = true;
        shift += 8 * p_.keys[k].format.bytes;
      }
    });
    uint64_t* sorted = a;
    if (p_.n < kMinRadixSortSize) {
      std::sort(a, a + p_.n);
    } else {
      sorted = Radix(a, b, 32, 32 + KeyBits(p_), [](uint64_t e) { return e; });
    }
    int from_key = -1;
    const SortKey& key = p_.keys[0];
    if (p_.keys.size() == 1 && !changed && key.format.bytes == p_.operand_bytes[key.operand] &&
        row_.out[key.operand] != nullptr) {
      from_key = key.operand;
      DispatchKey(key.format, [&]<typename U, int kMode>() {
        const KeyMasks<U> masks(key.format);
        U* out = reinterpret_cast<U*>(row_.out[from_key]);
        Range([&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) out[i] = masks.template Decode<kMode>(static_cast<U>(sorted[i] >> 32));
        });
      });
    }
    Permute(from_key, [sorted](int64_t i) { return static_cast<uint32_t>(sorted[i]); });
  }

  // Keys in groups of at most 64 bits, the least significant group first.
  void Chunks() {
    Wide* a = reinterpret_cast<Wide*>(scratch_.first);
    Wide* b = reinterpret_cast<Wide*>(scratch_.second);
    for (uint32_t i = 0; i < p_.n; ++i) a[i].index = i;
    for (size_t last = p_.keys.size(); last > 0;) {
      size_t first = last;
      int bits = 0;
      while (first > 0 && bits + 8 * p_.keys[first - 1].format.bytes <= 64) bits += 8 * p_.keys[--first].format.bytes;
      Range([&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) a[i].key = 0, a[i].place = static_cast<uint32_t>(i);
        int shift = 0;
        for (size_t k = last; k-- > first;) {
          EncodeKey(
              p_.keys[k], begin, end, [a](int64_t i) { return a[i].index; },
              [a, shift](int64_t i, uint64_t v) { a[i].key |= v << shift; });
          shift += 8 * p_.keys[k].format.bytes;
        }
      });
      if (p_.n < kMinRadixSortSize) {
        std::sort(a, a + p_.n,
                  [](const Wide& x, const Wide& y) { return x.key != y.key ? x.key < y.key : x.place < y.place; });
      } else if (Radix(a, b, 0, bits, [](const Wide& e) { return e.key; }) != a) {
        std::swap(a, b);
      }
      last = first;
    }
    Permute(-1, [a](int64_t i) { return a[i].index; });
  }

  // Merge sort of element numbers. Every comparison stays in bounds whatever the comparator answers.
  void Compared() {
    uint32_t* a = reinterpret_cast<uint32_t*>(scratch_.first);
    uint32_t* b = reinterpret_cast<uint32_t*>(scratch_.second);
    const int64_t n = p_.n;
    absl::InlinedVector<int64_t, 8> steps;
    for (int bytes : p_.operand_bytes) steps.push_back(bytes);
    int64_t run = n;
    const int64_t parts = pool_ == nullptr ? 1 : PoolThreads(pool_);
    if (parts > 1) run = (n + parts - 1) / parts;
    ForChunks(pool_, (n + run - 1) / run, [&](int64_t c, int) {
      Comparison less(*this, steps);
      const int64_t begin = c * run, end = std::min(n, begin + run);
      for (int64_t i = begin; i < end; ++i) a[i] = static_cast<uint32_t>(i);
      MergeSort(a + begin, b + begin, end - begin, less);
    });
    for (; run < n; run *= 2) {
      ForChunks(pool_, (n + 2 * run - 1) / (2 * run), [&](int64_t c, int) {
        Comparison less(*this, steps);
        const int64_t begin = c * 2 * run, middle = std::min(n, begin + run), end = std::min(n, middle + run);
        Merge(a + begin, a + middle, a + end, b + begin, less);
      });
      std::swap(a, b);
    }
    Permute(-1, [a](int64_t i) { return a[i]; });
  }

  class Comparison {
   public:
    Comparison(const RowSorter& s, const absl::InlinedVector<int64_t, 8>& steps)
        : sorter_(s), steps_(steps), lhs_(steps.size()), rhs_(steps.size()) {}
    bool operator()(uint32_t x, uint32_t y) {
      for (size_t k = 0; k < steps_.size(); ++k) {
        lhs_[k] = sorter_.row_.in[k] + x * steps_[k];
        rhs_[k] = sorter_.row_.in[k] + y * steps_[k];
      }
      return sorter_.p_.comparator(lhs_.data(), rhs_.data());
    }

   private:
    const RowSorter& sorter_;
    const absl::InlinedVector<int64_t, 8>& steps_;
    absl::InlinedVector<const void*, 8> lhs_, rhs_;
  };

  static void Merge(const uint32_t* left, const uint32_t* middle, const uint32_t* end, uint32_t* out,
                    Comparison& less) {
    const uint32_t* right = middle;
    if (left < middle && right < end && !less(*right, *(middle - 1))) {  // in order already
      std::copy(left, end, out);
      return;
    }
    while (left < middle && right < end) *out++ = less(*right, *left) ? *right++ : *left++;
    out = std::copy(left, middle, out);
    std::copy(right, end, out);
  }

  // The result is in `a`.
  static void MergeSort(uint32_t* a, uint32_t* b, int64_t n, Comparison& less) {
    constexpr int64_t kBlock = 8;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      for (int64_t i = begin + 1; i < std::min(n, begin + kBlock); ++i) {
        const uint32_t e = a[i];
        int64_t j = i;
        for (; j > begin && less(e, a[j - 1]); --j) a[j] = a[j - 1];
        a[j] = e;
      }
    }
    uint32_t* from = a;
    uint32_t* to = b;
    for (int64_t run = kBlock; run < n; run *= 2) {
      for (int64_t begin = 0; begin < n; begin += 2 * run) {
        const int64_t middle = std::min(n, begin + run), end = std::min(n, begin + 2 * run);
        Merge(from + begin, from + middle, from + end, to + begin, less);
      }
      std::swap(from, to);
    }
    if (from != a) std::copy(from, from + n, a);
  }

  // out[i] = in[index_of(i)] for all operands but `skip`.
  template <typename IndexOf>
  void Permute(int skip, IndexOf index_of) {
    for (size_t k = 0; k < p_.operand_bytes.size(); ++k) {
      if (static_cast<int>(k) == skip || row_.out[k] == nullptr) continue;
      switch (p_.operand_bytes[k]) {
        case 1:
          Gather<uint8_t>(k, index_of);
          break;
        case 2:
          Gather<uint16_t>(k, index_of);
          break;
        case 4:
          Gather<uint32_t>(k, index_of);
          break;
        case 8:
          Gather<uint64_t>(k, index_of);
          break;
        default:
          Gather<Bits128>(k, index_of);
          break;
      }
    }
  }
  template <typename T, typename IndexOf>
  void Gather(size_t k, IndexOf index_of) {
    Range([in = row_.in[k], out = row_.out[k], index_of](int64_t begin, int64_t end) {
      // By value: a store to `out` could otherwise change any of them, as far as the compiler knows.
      const std::byte* const from = in;
      std::byte* const to = out;
      const IndexOf index = index_of;
      for (int64_t i = begin; i < end; ++i) {
        const T v = LoadAt<T>(from + static_cast<int64_t>(index(i)) * static_cast<int64_t>(sizeof(T)));
        std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
      }
    });
  }

  const SortProblem& p_;
  const Row& row_;
  const Scratch& scratch_;
  ThreadPool* pool_;
};

// to[i * to_row + j * to_column] = from[i * from_row + j * from_column] for i < rows, j < columns.
template <typename T>
void TransposeOf(const std::byte* from, int64_t from_row, int64_t from_column, std::byte* to, int64_t to_row,
                 int64_t to_column, int64_t rows, int64_t columns) {
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) out[i * to_row + j * to_column] = in[i * from_row + j * from_column];
  }
}

void Transpose(int64_t bytes, const std::byte* from, int64_t from_row, int64_t from_column, std::byte* to,
               int64_t to_row, int64_t to_column, int64_t rows, int64_t columns) {
  const auto copy = bytes == 1   ? TransposeOf<uint8_t>
                    : bytes == 2 ? TransposeOf<uint16_t>
                    : bytes == 4 ? TransposeOf<uint32_t>
                    : bytes == 8 ? TransposeOf<uint64_t>
                                 : TransposeOf<Bits128>;
  copy(from, from_row, from_column, to, to_row, to_column, rows, columns);
}

}  // namespace

int64_t SortWorkspaceBytes(const SortProblem& problem, int num_threads) {
  const int64_t slots = problem.outer * problem.inner == 1 ? 1 : num_threads;
  return slots * ScratchSizes(problem, num_threads).total();
}

void Sort(const SortProblem& problem, const void* const* inputs, void* const* outputs, std::byte* workspace,
          ThreadPool* pool) {
  const int64_t rows = problem.outer * problem.inner;
  if (rows == 0 || problem.n == 0) return;
  const Sizes sizes = ScratchSizes(problem, PoolThreads(pool));
  const size_t operands = problem.operand_bytes.size();
  const int64_t group = GroupSize(problem), groups = (problem.inner + group - 1) / group, stride = GroupStride(problem);
  auto sort_groups = [&](int64_t begin, int64_t end, int slot, ThreadPool* row_pool) {
    std::byte* memory = workspace + slot * sizes.total();
    const Scratch scratch{memory, memory + sizes.first,
                          reinterpret_cast<uint32_t*>(memory + sizes.first + sizes.second)};
    std::byte* const copies = memory + sizes.first + sizes.second + sizes.counts;
    Row row;
    row.in.resize(operands);
    row.out.resize(operands);
    for (int64_t g = begin; g < end; ++g) {
      const int64_t column = g % groups * group, start = g / groups * problem.n * problem.inner + column;
      if (problem.inner == 1) {
        for (size_t k = 0; k < operands; ++k) {
          row.in[k] = static_cast<const std::byte*>(inputs[k]) + start * problem.operand_bytes[k];
          row.out[k] =
              outputs[k] == nullptr ? nullptr : static_cast<std::byte*>(outputs[k]) + start * problem.operand_bytes[k];
        }
        RowSorter(problem, row, scratch, row_pool).Run();
        continue;
      }
      const int64_t count = std::min(group, problem.inner - column);
      std::byte* at = copies;
      for (size_t k = 0; k < operands; ++k) {
        const int64_t bytes = problem.operand_bytes[k];
        Transpose(bytes, static_cast<const std::byte*>(inputs[k]) + start * bytes, problem.inner, 1, at, 1, stride,
                  problem.n, count);
        at += AlignTo64(group * stride * bytes);
      }
      for (int64_t r = 0; r < count; ++r) {
        std::byte* to = copies;
        for (size_t k = 0; k < operands; ++k) {
          const int64_t bytes = problem.operand_bytes[k];
          row.in[k] = to + r * stride * bytes;
          row.out[k] = outputs[k] == nullptr ? nullptr : to + sizes.group + r * stride * bytes;
          to += AlignTo64(group * stride * bytes);
        }
        RowSorter(problem, row, scratch, row_pool).Run();
      }
      at = copies + sizes.group;
      for (size_t k = 0; k < operands; ++k) {
        const int64_t bytes = problem.operand_bytes[k];
        if (outputs[k] != nullptr)
          Transpose(bytes, at, 1, stride, static_cast<std::byte*>(outputs[k]) + start * bytes, problem.inner, 1,
                    problem.n, count);
        at += AlignTo64(group * stride * bytes);
      }
    }
  };
  const int64_t all = problem.outer * groups;
  if (rows == 1 || RowInParallel(problem, pool))
    return sort_groups(0, all, 0, RowInParallel(problem, pool) ? pool : nullptr);
  ForRange(pool, all, std::max<int64_t>(1, 512 / (problem.n * group)),
           [&](int64_t begin, int64_t end, int slot) { sort_groups(begin, end, slot, nullptr); });
}

double SortMicroseconds(const SortProblem& problem) {
  const double rows = static_cast<double>(problem.outer * problem.inner), n = static_cast<double>(problem.n);
  const double each = problem.keys.empty()            ? 0.01 * std::log2(n + 1)
                      : problem.n < kMinRadixSortSize ? 0.003 * std::log2(n + 1)
                                                      : 0.002 * (1 + KeyBits(problem) / 16.0);
  return 0.1 + rows * n * each * static_cast<double>(problem.operand_bytes.size());
}

}  // namespace backplane::engine
