#include "plugins/hip/compiler/gathered_addresses.h"

#include <algorithm>
#include <limits>

namespace backplane::hip {

using llvm::Value;
using Digit = GatheredMatrix::Digit;

namespace {

constexpr int64_t kMaskBits = 32;

}  // namespace

GatheredAddresses::GatheredAddresses(llvm::IRBuilder<>& b, const GatheredMatrix& matrix, int64_t width)
    : b_(b), matrix_(matrix), width_(width) {
  type_ = matrix.bytes < std::numeric_limits<int32_t>::max() ? b.getInt32Ty() : b.getInt64Ty();
  int64_t window = 1;
  for (const Digit& d : matrix.k) window *= d.space >= 0 ? d.size : 1;
  uses_mask_ = matrix.HasGaps() && window <= kMaskBits;
  is_dilated_ = std::any_of(matrix.spaces.begin(), matrix.spaces.end(), [](const auto& s) { return s.dilation > 1; });
  positions_ = uses_mask_ && !is_dilated_ ? 0 : matrix.spaces.size();
}

Value* GatheredAddresses::Offset(Value* count, int64_t stride) {
  return b_.CreateMul(b_.CreateSExt(count, type_), llvm::ConstantInt::getSigned(type_, stride * width_));
}

GatheredAddresses::Digits GatheredAddresses::Split(const std::vector<Digit>& digits, Value* number) {
  Digits split{llvm::ConstantInt::get(type_, 0), Values(matrix_.spaces.size(), nullptr), nullptr,
               Values(digits.size(), nullptr)};
  int64_t places = 1;  // of the window's positions so far
  for (size_t i = digits.size(); i-- > 0;) {
    const Digit& d = digits[i];
    Value* digit = split.digits[i] = i == 0 ? number : b_.CreateURem(number, Number(d.size));
    if (i > 0) number = b_.CreateUDiv(number, Number(d.size));
    if (d.space < 0) {
      split.offset = b_.CreateAdd(split.offset, Offset(digit, d.stride));
      continue;
    }
    Value* moved = b_.CreateMul(digit, Number(d.stride));
    Value*& position = split.positions[static_cast<size_t>(d.space)];
    position = position == nullptr ? moved : b_.CreateAdd(position, moved);
    Value* place = b_.CreateMul(digit, Number(places));
    split.window = split.window == nullptr ? place : b_.CreateAdd(split.window, place);
    places *= d.size;
  }
  return split;
}

// Whether the position has an element.
Value* GatheredAddresses::IsElement(const GatheredMatrix::Space& space, Value* position) {
  Value* exists = b_.CreateICmpULE(position, Number((space.size - 1) * space.dilation));
  if (space.dilation == 1) return exists;
  return b_.CreateAnd(exists, b_.CreateICmpEQ(b_.CreateURem(position, Number(space.dilation)), Number(0)));
}

// Returns a word with a bit for each position in the window: whether the element of a row exists.
Value* GatheredAddresses::FindMask(const Values& positions) {
  // The innermost digit has the lowest places. What is known of the digits within one is repeated for each of its
  // values.
  Value* mask = Number(1);
  int64_t places = 1;
  for (size_t i = matrix_.k.size(); i-- > 0;) {
    const Digit& d = matrix_.k[i];
    if (d.space < 0) continue;
    Value* repeated = Number(0);
    for (int64_t at = 0; at < d.size; ++at) {
      Value* position = b_.CreateAdd(positions[static_cast<size_t>(d.space)], Number(at * d.stride));
      Value* exists = IsElement(matrix_.spaces[static_cast<size_t>(d.space)], position);
      repeated = b_.CreateOr(repeated, b_.CreateSelect(exists, b_.CreateShl(mask, Number(at * places)), Number(0)));
    }
    mask = repeated;
    places *= d.size;
  }
  // Spaces in which only the row moves.
  for (size_t s = 0; s < matrix_.spaces.size(); ++s) {
    const bool moves =
        std::any_of(matrix_.k.begin(), matrix_.k.end(), [&](const Digit& d) { return d.space == static_cast<int>(s); });
    if (!moves) mask = b_.CreateSelect(IsElement(matrix_.spaces[s], positions[s]), mask, Number(0));
  }
  return mask;
}

GatheredAddresses::Values GatheredAddresses::StartRow(Value* row) {
  const Digits digits = Split(matrix_.rows, row);
  Value* offset = b_.CreateAdd(digits.offset, llvm::ConstantInt::getSigned(type_, matrix_.base * width_));
  Values positions;
  for (size_t s = 0; s < matrix_.spaces.size(); ++s) {
    const GatheredMatrix::Space& space = matrix_.spaces[s];
    Value* position = Number(space.offset);
    if (digits.positions[s] != nullptr) position = b_.CreateAdd(position, digits.positions[s]);
    positions.push_back(position);
    if (space.dilation == 1) offset = b_.CreateAdd(offset, Offset(position, space.stride));
  }
  Values values = {offset};
  if (uses_mask_) values.push_back(FindMask(positions));
  if (positions_ > 0) values.insert(values.end(), positions.begin(), positions.end());
  return values;
}

GatheredAddresses::Values GatheredAddresses::MakeTerm(Digits digits) {
  for (size_t s = 0; s < matrix_.spaces.size(); ++s) {
    const GatheredMatrix::Space& space = matrix_.spaces[s];
    if (digits.positions[s] == nullptr) digits.positions[s] = Number(0);
    if (space.dilation == 1) digits.offset = b_.CreateAdd(digits.offset, Offset(digits.positions[s], space.stride));
  }
  Values values = {digits.offset};
  if (uses_mask_) values.push_back(digits.window == nullptr ? Number(0) : digits.window);
  if (positions_ > 0) values.insert(values.end(), digits.positions.begin(), digits.positions.end());
  return values;
}

int64_t GatheredAddresses::ComputeByteStride(const Digit& d) const {
  if (d.space < 0) return d.stride * width_;
  const GatheredMatrix::Space& space = matrix_.spaces[static_cast<size_t>(d.space)];
  return space.dilation == 1 ? d.stride * space.stride * width_ : 0;
}

GatheredAddresses::Values GatheredAddresses::StartWalk(Value* k) {
  const Digits digits = Split(matrix_.k, k);
  Values walk = MakeTerm(digits);
  if (!digits.digits.empty()) walk.insert(walk.end(), digits.digits.begin() + 1, digits.digits.end());
  return walk;
}

GatheredAddresses::Values GatheredAddresses::Advance(const Values& walk, int64_t slice) {
  Values next = walk;
  const size_t count = matrix_.k.size(), counters = walk.size() + 1 - count;  // the outermost digit needs none
  std::vector<int64_t> places(count, 0);
  for (size_t i = count, place = 1; i-- > 0;) {
    if (matrix_.k[i].space < 0) continue;
    places[i] = static_cast<int64_t>(place);
    place *= static_cast<size_t>(matrix_.k[i].size);
  }
  // Adds what `times` movements of a digit by `n` mean. `times` is 0 or 1.
  auto move = [&](Value*& value, Value* times, int64_t amount) {
    if (amount == 0) return;
    Value* moved = b_.CreateMul(b_.CreateZExt(times, value->getType()),
                                llvm::ConstantInt::getSigned(llvm::cast<llvm::IntegerType>(value->getType()), amount));
    value = b_.CreateAdd(value, moved);
  };
  Value* times = Number(1);
  for (size_t i = count; i-- > 0;) {
    // Digit i moves by `step`; the one within it, if there is one, goes back to 0 at the same time.
    const Digit& d = matrix_.k[i];
    const bool is_inner = i + 1 == count;
    const int64_t step = is_inner ? slice : 1, back = is_inner ? 0 : matrix_.k[i + 1].size;
    const Digit within = is_inner ? Digit{} : matrix_.k[i + 1];
    move(next[0], times, step * ComputeByteStride(d) - back * ComputeByteStride(within));
    if (uses_mask_) move(next[1], times, step * places[i] - (is_inner ? 0 : back * places[i + 1]));
    if (positions_ > 0) {
      const size_t first = uses_mask_ ? 2 : 1;
      if (d.space >= 0) move(next[first + static_cast<size_t>(d.space)], times, step * d.stride);
      if (within.space >= 0) move(next[first + static_cast<size_t>(within.space)], times, -back * within.stride);
    }
    if (i == 0) break;
    Value* moved = b_.CreateAdd(walk[counters + i - 1], b_.CreateMul(times, Number(step)));
    // 1 if the digit has reached its size: arithmetic, because code generators do badly with uniform conditions.
    if (d.size != step) times = b_.CreateLShr(b_.CreateSub(Number(d.size - 1), moved), Number(31));
    next[counters + i - 1] = b_.CreateSub(moved, b_.CreateMul(times, Number(d.size)));
  }
  return next;
}

GatheredAddresses::Address GatheredAddresses::Find(absl::Span<Value* const> row, absl::Span<Value* const> term) {
  Address address{b_.CreateAdd(row[0], term[0]), nullptr};
  if (uses_mask_) {
    address.exists = b_.CreateICmpNE(b_.CreateAnd(row[1], b_.CreateShl(Number(1), term[1])), Number(0));
  }
  const size_t first = uses_mask_ ? 2 : 1;
  for (size_t s = 0; s < positions_; ++s) {
    const GatheredMatrix::Space& space = matrix_.spaces[s];
    Value* position = b_.CreateAdd(row[first + s], term[first + s]);
    if (!uses_mask_) {
      Value* exists = IsElement(space, position);
      address.exists = address.exists == nullptr ? exists : b_.CreateAnd(address.exists, exists);
    }
    if (space.dilation > 1) {
      Value* element = b_.CreateUDiv(position, Number(space.dilation));
      address.offset = b_.CreateAdd(address.offset, Offset(element, space.stride));
    }
  }
  return address;
}

}  // namespace backplane::hip
