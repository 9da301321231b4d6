#include "core/relayout/relayout.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/relayout/relayout_kernels.h"
#include "core/relayout/transpose.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

using relayout::Wide;

// Arrays larger than this do not stay in the caches until they are used.
constexpr int64_t kMaxCachedBytes = int64_t{4} << 20;

bool IsPacked(int64_t bits) { return bits == 1 || bits == 2 || bits == 4; }

// Describes the reads of one innermost block: `rows` rows, `pitch` bytes apart, of this many bytes each.
struct ReadRange {
  int64_t rows = 1, pitch = 0, bytes = 0;
};

// Calls work(source, target) for all positions of the loops, outermost first; strides are in bytes. The hardware
// prefetcher does not follow blocks that are far apart, so for a large array (`far`) a block some positions ahead is
// prefetched.
template <typename Loops, typename Work>
void Walk(const Loops& loops, const std::byte* source, std::byte* target, bool far, const ReadRange& reach,
          const Work& work) {
  constexpr int64_t kAhead = 4, kForeseen = 1024;
  int64_t n = 1, from_step = 0, to_step = 0;  // the innermost loop runs here, the others as an odometer
  size_t outer = loops.size();
  if (outer > 0) {
    --outer;
    n = loops[outer].size;
    from_step = loops[outer].from;
    to_step = loops[outer].to;
  }
  const bool apart = reach.rows > 1 || from_step != reach.bytes;
  const int64_t bytes = far && apart && reach.bytes <= kForeseen ? reach.bytes : 0;
  absl::InlinedVector<int64_t, 8> at(outer, 0);
  for (;;) {
    const std::byte* a = source;
    std::byte* b = target;
    for (int64_t i = 0; i < n; ++i, a += from_step, b += to_step) {
      if (bytes > 0 && i + kAhead < n) {
        for (int64_t k = 0; k < reach.rows; ++k) {
          const std::byte* ahead = a + kAhead * from_step + k * reach.pitch;
          for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
        }
      }
      work(a, b);
    }
    size_t d = outer;
    while (d > 0) {
      const auto& l = loops[d - 1];
      source += l.from;
      target += l.to;
      if (++at[d - 1] < l.size) break;
      source -= l.size * l.from;
      target -= l.size * l.to;
      at[--d] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

absl::StatusOr<Relayout> Relayout::Plan(const Shape& from, const Shape& to, PaddingFill fill) {
  if (!from.IsArray() || !(from == to)) {
    return absl::InvalidArgumentError(absl::StrCat("relayout: ", from.ToString(true), " to ", to.ToString(true),
                                                   ": expected arrays that differ in layout only"));
  }
  ASSIGN_OR_RETURN(PhysicalLayout a, PhysicalLayout::Of(from));
  ASSIGN_OR_RETURN(PhysicalLayout b, PhysicalLayout::Of(to));
  return Plan(from.element_type(), a, b, fill);
}

absl::StatusOr<Relayout> Relayout::Plan(PrimitiveType type, const PhysicalLayout& from, const PhysicalLayout& to,
                                        PaddingFill fill) {
  if (from.dims() != to.dims()) return absl::InvalidArgumentError("relayout: the arrays differ in size");
  if (from.prefix_bytes() != to.prefix_bytes()) {
    return absl::UnimplementedError(
        absl::StrCat("relayout: ", from.prefix_bytes(), " bytes of metadata into ", to.prefix_bytes()));
  }
  for (const PhysicalLayout* p : {&from, &to}) {
    const int64_t bits = p->element_bits();
    const bool natural = bits == 8 * ByteWidth(type);
    if (!natural && !(IsPacked(bits) && bits >= BitWidth(type) && ByteWidth(type) == 1)) {
      return absl::UnimplementedError(absl::StrCat("relayout: ", Name(type), " in elements of ", bits, " bits"));
    }
  }
  Relayout r(type, from, to, fill);
  r.MakeBoxes();
  r.packed_runs_ = r.MakePackedRuns();
  return r;
}

// Splits each dimension where digits end on either side, so that all loops of a box have constant strides.
void Relayout::MakeBoxes() {
  boxed_ = from_.separable() && to_.separable();
  if (!boxed_ || from_.num_logical() == 0) return;
  struct Range {
    int64_t from = 0, to = 0;
    std::vector<Loop> loops;
  };
  auto address = [](const std::vector<PhysicalLayout::Digit>& digits, int64_t index) {
    int64_t sum = 0;
    for (size_t k = 0; k < digits.size(); ++k) {
      const int64_t v = index / digits[k].divisor;
      sum += (k == 0 ? v : v % digits[k].size) * digits[k].stride;
    }
    return sum;
  };
  std::vector<std::vector<Range>> per_dim;
  for (size_t d = 0; d < from_.dims().size(); ++d) {
    const auto &a = from_.digits(static_cast<int64_t>(d)), &b = to_.digits(static_cast<int64_t>(d));
    // Divisors, each of which divides the next larger one.
    std::vector<int64_t> steps;
    for (const auto* digits : {&a, &b}) {
      for (const PhysicalLayout::Digit& x : *digits) steps.push_back(x.divisor);
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    for (size_t k = 1; k < steps.size(); ++k) {
      if (steps[k] % steps[k - 1] != 0) boxed_ = false;
    }
    if (!boxed_) return;
    std::vector<Range> ranges;
    const int64_t n = from_.dims()[d];
    for (int64_t at = 0; at < n;) {
      // The largest steps first, then smaller ones for the rest.
      size_t k = steps.size() - 1;
      while (steps[k] > n - at) --k;
      Range range{address(a, at), address(b, at), {}};
      int64_t count = (n - at) / steps[k];
      const int64_t length = count * steps[k];
      for (size_t j = k + 1; j-- > 0;) {
        range.loops.push_back(
            {count, address(a, at + steps[j]) - address(a, at), address(b, at + steps[j]) - address(b, at)});
        if (j > 0) count = steps[j] / steps[j - 1];
      }
      for (Loop& loop : range.loops) {
        if (loop.size == 1) loop.from = loop.to = 0;
      }
      ranges.push_back(std::move(range));
      at += length;
    }
    per_dim.push_back(std::move(ranges));
  }
  // Walks the memory of the side with more digits in order, because it is tiled: the pieces of the other side are
  // longer.
  size_t from_digits = 0, to_digits = 0;
  for (size_t d = 0; d < from_.dims().size(); ++d) {
    from_digits += from_.digits(static_cast<int64_t>(d)).size();
    to_digits += to_.digits(static_cast<int64_t>(d)).size();
  }
  const bool by_source = from_digits > to_digits;
  // A target that is written sequentially uses non-temporal stores, as memcpy does for large blocks. In any other order
  // partial cache lines would be written several times.
  in_order_ = !by_source && !to_.has_padding();
  // Combines all ranges.
  std::vector<Box> boxes(1);
  for (const auto& ranges : per_dim) {
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (const Range& r : ranges) {
        Box b = box;
        b.from += r.from;
        b.to += r.to;
        b.loops.insert(b.loops.end(), r.loops.begin(), r.loops.end());
        next.push_back(std::move(b));
      }
    }
    boxes = std::move(next);
  }
  for (Box& box : boxes) {
    std::vector<Loop>& loops = box.loops;
    loops.erase(std::remove_if(loops.begin(), loops.end(), [](const Loop& l) { return l.size == 1; }), loops.end());
    std::stable_sort(loops.begin(), loops.end(),
                     [by_source](const Loop& x, const Loop& y) { return by_source ? x.from > y.from : x.to > y.to; });
    // Merges loops that are contiguous on both sides.
    std::vector<Loop> merged;
    for (const Loop& l : loops) {
      if (!merged.empty() && merged.back().from == l.size * l.from && merged.back().to == l.size * l.to) {
        merged.back() = {merged.back().size * l.size, l.from, l.to};
      } else {
        merged.push_back(l);
      }
    }
    loops = std::move(merged);
  }
  // Shares the outer loops common to all boxes: boxes for the edges of an array are copied while their neighbours are
  // cached.
  auto common = [&](size_t k) {
    for (const Box& box : boxes) {
      if (k >= box.loops.size()) return false;
      const Loop &l = box.loops[k], &first = boxes[0].loops[k];
      if (l.size != first.size || l.from != first.from || l.to != first.to || l.from == 1 || l.to == 1) return false;
    }
    return boxes.size() > 1;
  };
  size_t count = 0;
  while (common(count)) ++count;
  if (count > 0) {
    shared_.assign(boxes[0].loops.begin(), boxes[0].loops.begin() + static_cast<int64_t>(count));
    for (Box& box : boxes) box.loops.erase(box.loops.begin(), box.loops.begin() + static_cast<int64_t>(count));
  }
  boxes_ = std::move(boxes);
}

// Packed elements are copied as bytes, or packed and unpacked run by run, if every run starts and ends at a byte
// boundary. Otherwise all elements are unpacked first.
bool Relayout::MakePackedRuns() {
  const int64_t from_bits = from_.element_bits(), to_bits = to_.element_bits();
  if (!boxed_ || (from_bits >= 8 && to_bits >= 8)) return false;
  if (from_bits < 8 && to_bits < 8 && from_bits != to_bits) return false;
  std::vector<Box> boxes = boxes_;
  std::vector<Loop> shared = shared_;
  auto in_bytes = [](int64_t& elements, int64_t bits) {
    if (elements * bits % 8 != 0) return false;
    elements = elements * bits / 8;
    return true;
  };
  for (Loop& l : shared) {
    if (!in_bytes(l.from, from_bits) || !in_bytes(l.to, to_bits)) return false;
  }
  for (Box& box : boxes) {
    auto run = std::find_if(box.loops.begin(), box.loops.end(), [](const Loop& l) { return l.from == 1 && l.to == 1; });
    if (run == box.loops.end()) return false;
    const int64_t size = run->size;
    box.loops.erase(run);
    if (size * from_bits % 8 != 0 || size * to_bits % 8 != 0) return false;
    if (!in_bytes(box.from, from_bits) || !in_bytes(box.to, to_bits)) return false;
    for (Loop& l : box.loops) {
      if (!in_bytes(l.from, from_bits) || !in_bytes(l.to, to_bits)) return false;
    }
    box.loops.push_back({size, 1, 1});
  }
  boxes_ = std::move(boxes);
  shared_ = std::move(shared);
  return true;
}

void Relayout::CopyPackedRuns(const std::byte* source, std::byte* target) const {
  const int from_bits = static_cast<int>(from_.element_bits()), to_bits = static_cast<int>(to_.element_bits());
  const bool far = to_.byte_size() > kMaxCachedBytes, stream = far && in_order_, sign = IsSigned(type_);
  Walk(shared_, source, target, false, {}, [&](const std::byte* in, std::byte* out) {
    for (const Box& box : boxes_) {
      const absl::Span<const Loop> loops = absl::MakeSpan(box.loops).subspan(0, box.loops.size() - 1);
      const int64_t run = box.loops.back().size;
      Walk(loops, in + box.from, out + box.to, far, {1, 0, run * from_bits / 8}, [&](const std::byte* a, std::byte* b) {
        if (from_bits == to_bits) return relayout::CopyRun(a, b, static_cast<size_t>(run * to_bits / 8), stream);
        if (from_bits < 8) return relayout::Unpack(a, run, from_bits, sign, b, stream);
        relayout::Pack(a, run, to_bits, b, stream);
      });
    }
  });
  if (stream) relayout::EndStream();
}

template <typename T>
void Relayout::CopyBox(const Box& box, bool far, bool stream, const T* source, T* target) {
  absl::InlinedVector<Loop, 8> outer(box.loops.begin(), box.loops.end());
  // The innermost work: one loop that is contiguous on both sides, or two, each contiguous on one side.
  Loop run{1, 1, 1}, in{1, 1, 1}, out{1, 1, 1};
  enum { kRun, kWeave, kUnweave, kTranspose, kSingle } how = kSingle;
  auto contiguous_both =
      std::find_if(outer.begin(), outer.end(), [](const Loop& l) { return l.from == 1 && l.to == 1; });
  if (contiguous_both != outer.end()) {
    run = *contiguous_both;
    outer.erase(contiguous_both);
    how = kRun;
  } else {
    auto contiguous_in = std::find_if(outer.begin(), outer.end(), [](const Loop& l) { return l.from == 1; });
    auto contiguous_out = std::find_if(outer.begin(), outer.end(), [](const Loop& l) { return l.to == 1; });
    if (contiguous_in != outer.end() && contiguous_out != outer.end()) {
      in = *contiguous_in;
      out = *contiguous_out;
      outer.erase(std::max(contiguous_in, contiguous_out));
      outer.erase(std::min(contiguous_in, contiguous_out));
      const auto few = [](int64_t n) { return n == 2 || n == 4 || n == 8; };
      how = few(out.size) && in.to == out.size ? kWeave : few(in.size) && out.from == in.size ? kUnweave : kTranspose;
    }
  }
  constexpr int64_t kWidth = static_cast<int64_t>(sizeof(T));
  for (Loop& l : outer) {
    l.from *= kWidth;
    l.to *= kWidth;
  }
  const std::byte* from = reinterpret_cast<const std::byte*>(source + box.from);
  std::byte* to = reinterpret_cast<std::byte*>(target + box.to);
  const auto walk = [&](const ReadRange& reach, const auto& work) {
    Walk(outer, from, to, far, reach,
         [&](const std::byte* a, std::byte* b) { work(reinterpret_cast<const T*>(a), reinterpret_cast<T*>(b)); });
  };
  const auto with_count = [](int64_t n, const auto& fn) {
    if (n == 2) return fn(std::integral_constant<int, 2>());
    if (n == 4) return fn(std::integral_constant<int, 4>());
    fn(std::integral_constant<int, 8>());
  };
  switch (how) {
    case kRun: {
      const size_t bytes = static_cast<size_t>(run.size * kWidth);
      return walk({1, 0, run.size * kWidth}, [&](const T* a, T* b) { relayout::CopyRun(a, b, bytes, stream); });
    }
    case kWeave:
      return with_count(out.size, [&](auto n) {
        walk({out.size, out.from * kWidth, in.size * kWidth},
             [&](const T* a, T* b) { relayout::Interleave<T, decltype(n)::value>(a, out.from, in.size, b, stream); });
      });
    case kUnweave:
      return with_count(in.size, [&](auto n) {
        walk({1, 0, in.size * out.size * kWidth},
             [&](const T* a, T* b) { relayout::Deinterleave<T, decltype(n)::value>(a, out.size, b, in.to, stream); });
      });
    case kTranspose: {
      const TransposePlan plan = PlanTranspose(kWidth, in.size, out.size, out.from * kWidth, in.to * kWidth,
                                               stream ? kMaxCachedBytes + 1 : in.size * out.size * kWidth);
      std::vector<std::byte> scratch(static_cast<size_t>(plan.scratch_bytes == 0 ? 0 : plan.scratch_bytes + 64));
      std::byte* tile = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
      return walk({}, [&](const T* a, T* b) {
        for (int64_t c = 0; c < plan.columns; c += plan.tile_columns) {
          for (int64_t r = 0; r < plan.rows; r += plan.tile_rows) RunTransposeTile(&plan, a, b, r, c, tile);
        }
      });
    }
    case kSingle:
      return walk({}, [](const T* a, T* b) { *b = *a; });
  }
}

template <typename T>
void Relayout::Copy(const T* source, T* target) const {
  if (boxed_) {
    const bool far = to_.num_elements() * static_cast<int64_t>(sizeof(T)) > kMaxCachedBytes, stream = far && in_order_;
    std::vector<Loop> shared = shared_;
    for (Loop& l : shared) {
      l.from *= static_cast<int64_t>(sizeof(T));
      l.to *= static_cast<int64_t>(sizeof(T));
    }
    Walk(shared, reinterpret_cast<const std::byte*>(source), reinterpret_cast<std::byte*>(target), false, {},
         [&](const std::byte* a, std::byte* b) {
           for (const Box& box : boxes_)
             CopyBox(box, far, stream, reinterpret_cast<const T*>(a), reinterpret_cast<T*>(b));
         });
    if (stream) relayout::EndStream();
    return;
  }
  DimVector at(from_.dims().size(), 0);
  for (int64_t n = 0; n < from_.num_logical(); ++n) {
    target[to_.LinearIndex(at)] = source[from_.LinearIndex(at)];
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < from_.dims()[d]) break;
      at[d] = 0;
    }
  }
}

void Relayout::CopyUnpacked(int64_t bytes, const std::byte* source, std::byte* target) const {
  switch (bytes) {
    case 1:
      return Copy(reinterpret_cast<const uint8_t*>(source), reinterpret_cast<uint8_t*>(target));
    case 2:
      return Copy(reinterpret_cast<const uint16_t*>(source), reinterpret_cast<uint16_t*>(target));
    case 4:
      return Copy(reinterpret_cast<const uint32_t*>(source), reinterpret_cast<uint32_t*>(target));
    case 8:
      return Copy(reinterpret_cast<const uint64_t*>(source), reinterpret_cast<uint64_t*>(target));
    default:
      return Copy(reinterpret_cast<const Wide*>(source), reinterpret_cast<Wide*>(target));
  }
}

void Relayout::Run(const void* source, void* target) const {
  const std::byte* in = static_cast<const std::byte*>(source);
  std::byte* out = static_cast<std::byte*>(target);
  if (fill_ == PaddingFill::kZero && to_.has_padding()) std::memset(out, 0, static_cast<size_t>(to_.byte_size()));
  if (from_.prefix_bytes() > 0) {
    std::memcpy(out, in, static_cast<size_t>(from_.prefix_bytes()));
    in += from_.prefix_bytes();
    out += to_.prefix_bytes();
  }
  if (packed_runs_) return CopyPackedRuns(in, out);
  std::vector<std::byte> unpacked, packed;
  if (IsPacked(from_.element_bits())) {
    unpacked.resize(static_cast<size_t>(from_.num_elements()));
    relayout::Unpack(in, from_.num_elements(), static_cast<int>(from_.element_bits()), IsSigned(type_), unpacked.data(),
                     false);
    in = unpacked.data();
  }
  if (!IsPacked(to_.element_bits())) return CopyUnpacked(ByteWidth(type_), in, out);
  // Keeps padding bits inside a byte that is written.
  packed.resize(static_cast<size_t>(to_.num_elements()));
  if (to_.has_padding())
    relayout::Unpack(out, to_.num_elements(), static_cast<int>(to_.element_bits()), false, packed.data(), false);
  CopyUnpacked(1, in, packed.data());
  relayout::Pack(packed.data(), to_.num_elements(), static_cast<int>(to_.element_bits()), out, false);
}

}  // namespace backplane
