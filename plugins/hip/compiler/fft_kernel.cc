// The kernels of Fourier transforms: a block loads lines into shared memory, transforms them pass by pass from one copy
// to another, and stores them.
#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>

#include "core/ops/families/fft_passes.h"
#include "core/types/integer_division.h"
#include "plugins/hip/compiler/fft_butterflies.h"
#include "plugins/hip/compiler/fft_stages.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/lowering/gpu_ir.h"

namespace backplane::hip {

using codegen::LoopScopes;
using llvm::Value;

namespace {

using Numbers = std::vector<FftNumber>;
using Unity = std::vector<fft::Number<double>>;

class FftEmitter {
 public:
  FftEmitter(KernelFrame& frame, const Instruction& op, const FftStage& stage)
      : f_(frame),
        b_(frame.b),
        stage_(stage),
        passes_(ListPasses(stage)),
        unity_(stage.length),
        is_double_(ByteWidth(ComplexType(op)) == 16),
        type_(is_double_ ? b_.getDoubleTy() : b_.getFloatTy()),
        pair_(llvm::FixedVectorType::get(type_, 2)),
        butterflies_(b_, type_, stage.length, stage.forward, !is_complex()) {
    const int64_t bytes = std::max(op.shape().byte_size(), op.operand(0)->shape().byte_size());
    auto address = [&](FftStage::Buffer buffer) -> Value* {
      switch (buffer) {
        case FftStage::Buffer::kOperand:
          return f_.array(0);
        case FftStage::Buffer::kResult:
          return f_.array(1);
        case FftStage::Buffer::kScratch:
          return f_.array(2);
        case FftStage::Buffer::kSecondScratch:
          return b_.CreateConstGEP1_64(b_.getInt8Ty(), f_.array(2), static_cast<uint64_t>(bytes));
      }
      return nullptr;
    };
    from_ = address(stage.from), to_ = address(stage.to);
    const int64_t elements = stage.lines * std::max(stage.length, 2 * Bins());
    wide_ = f_.indices.CounterType(4 * (elements + stage.lines_of_block * stage.length));
    slots_ = CountLineSlots(stage);
    const PrimitiveType part = is_double_ ? PrimitiveType::kF64 : PrimitiveType::kF32;
    const int64_t count = slots_ * stage.lines_of_block * (is_complex() ? 2 : 1);
    for (Value*& copy : shared_) copy = f_.AddShared(part, count);
  }

  void Emit() {
    f_.ForEachBlock(CeilDiv(stage_.lines, stage_.lines_of_block), [&](Value* tile) {
      first_line_ = b_.CreateMul(b_.CreateZExtOrTrunc(tile, wide_), Wide(stage_.lines_of_block));
      now_ = 0;
      is_complex() ? EmitComplex() : EmitReal();
      f_.EmitBarrier();  // the memory is written again
    });
  }

 private:
  static PrimitiveType ComplexType(const Instruction& op) {
    const PrimitiveType t = op.shape().element_type();
    return IsComplex(t) ? t : GetComplexType(t);
  }
  bool is_complex() const { return stage_.kind == FftStage::Kind::kComplex; }
  int64_t Bins() const { return stage_.length / 2 + 1; }

  // ---- Numbers and addresses.

  Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  Value* Wide(int64_t n) { return llvm::ConstantInt::get(wide_, static_cast<uint64_t>(n)); }
  Value* Add(Value* x, Value* y) { return b_.CreateAdd(x, y); }
  Value* Multiply(Value* x, int64_t n) {
    return n == 1 ? x : b_.CreateMul(x, llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(n)));
  }
  std::pair<Value*, Value*> Divide(Value* x, int64_t n) {
    Value* d = llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(n));
    return {b_.CreateUDiv(x, d), b_.CreateURem(x, d)};
  }

  // Runs `body` for the numbers below `count`, which the threads of the block take in turns.
  void ForEach(int64_t count, const std::function<void(Value*)>& body) {
    const int64_t threads = f_.plan.threads;
    if (count <= threads) {
      f_.scopes.If(count == threads ? nullptr : b_.CreateICmpULT(f_.thread(), Number(count)),
                   [&] { body(f_.thread()); });
      return;
    }
    f_.scopes.Loop(f_.thread(), Number(count), threads, body);
  }
  // The same for loops that only move elements, several of which are then under way.
  void ForEachMoved(int64_t count, const std::function<void(Value*)>& body) {
    LoopScopes::Values none;
    f_.ForEachInBlock(count, none,
                      [&](Value* at, LoopScopes::Values&) { body(b_.CreateZExtOrTrunc(at, b_.getInt32Ty())); });
  }

  // The number of a line of the block among all lines; that of the last one where the block has fewer.
  Value* GlobalLine(Value* line) {
    Value* all = Add(first_line_, b_.CreateZExtOrTrunc(line, wide_));
    return HasAllLines() ? all : b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, all, Wide(stage_.lines - 1));
  }
  bool HasAllLines() const { return stage_.lines % stage_.lines_of_block == 0; }
  Value* Exists(Value* line) {
    if (HasAllLines()) return nullptr;
    return b_.CreateICmpULT(Add(first_line_, b_.CreateZExtOrTrunc(line, wide_)), Wide(stage_.lines));
  }

  // The digits of the number of a line: its column c and the rest of its position (fft_stages.h).
  struct LineIndex {
    Value *q, *c, *k, *outer;
  };
  LineIndex IndexOfLine(Value* line) {
    LineIndex p;
    std::tie(line, p.q) = Divide(GlobalLine(line), stage_.stride);
    std::tie(line, p.c) = Divide(line, stage_.after);
    std::tie(p.outer, p.k) = Divide(line, stage_.before);
    return p;
  }
  // Where element `position` of a complex line is, in elements of the array.
  Value* ComputeAddress(const LineIndex& p, Value* position, bool stores) {
    position = b_.CreateZExtOrTrunc(position, wide_);
    Value* of_length =
        stores ? Add(p.k, Multiply(position, stage_.before)) : Add(position, Multiply(p.k, stage_.length));
    Value* of_dimension = Add(p.c, Multiply(of_length, stage_.after));
    const int64_t n = stage_.length * stage_.before * stage_.after;
    return Add(Multiply(Add(Multiply(p.outer, n), of_dimension), stage_.stride), p.q);
  }

  FftNumber LoadPair(llvm::Type* type, Value* base, Value* at) {
    auto* vector = llvm::cast<llvm::FixedVectorType>(type);
    const uint64_t bytes = vector->getPrimitiveSizeInBits().getFixedValue() / 8;
    const uint64_t known = static_cast<uint64_t>(std::max(f_.elements.target().buffer_alignment, 1));
    Value* v = b_.CreateAlignedLoad(vector, b_.CreateGEP(vector, base, at), llvm::Align(std::min(bytes, known)));
    return {b_.CreateExtractElement(v, uint64_t{0}), b_.CreateExtractElement(v, uint64_t{1})};
  }
  void StorePair(Value* base, Value* at, FftNumber x) {
    Value* v = b_.CreateInsertElement(llvm::PoisonValue::get(pair_), Part(x.r), uint64_t{0});
    v = b_.CreateInsertElement(v, Part(x.i), uint64_t{1});
    const uint64_t bytes = is_double_ ? 16 : 8;
    const uint64_t known = static_cast<uint64_t>(std::max(f_.elements.target().buffer_alignment, 1));
    b_.CreateAlignedStore(v, b_.CreateGEP(pair_, base, at), llvm::Align(std::min(bytes, known)));
  }
  Value* Part(Value* x) { return x == nullptr ? llvm::ConstantFP::get(type_, 0) : x; }

  // A table of pairs in the code.
  Value* AddTable(const Unity& numbers, bool is_double) {
    llvm::Constant* data = nullptr;
    if (is_double) {
      std::vector<double> parts;
      for (const auto& x : numbers) parts.insert(parts.end(), {x.r, x.i});
      data = llvm::ConstantDataArray::get(f_.elements.context(), parts);
    } else {
      std::vector<float> parts;
      for (const auto& x : numbers) parts.insert(parts.end(), {static_cast<float>(x.r), static_cast<float>(x.i)});
      data = llvm::ConstantDataArray::get(f_.elements.context(), parts);
    }
    auto* table = new llvm::GlobalVariable(
        *f_.elements.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, "", nullptr,
        llvm::GlobalValue::NotThreadLocal, f_.elements.target().constant_address_space);
    table->setAlignment(llvm::Align(64));
    return table;
  }
  FftNumber Root(Value* table, Value* at) { return LoadPair(pair_, table, at); }
  fft::Number<double> Unit(int64_t k) const { return unity_.operator()<double>(k % stage_.length); }

  // ---- Shared memory.

  Value* Slot(Value* line, Value* position) {
    return Add(Multiply(line, slots_), Add(position, b_.CreateLShr(position, is_complex() ? 4 : 5)));
  }
  FftNumber LoadShared(Value* line, Value* position) { return LoadPair(pair_, shared_[now_], Slot(line, position)); }
  void StoreShared(int copy, Value* line, Value* position, FftNumber x) {
    StorePair(shared_[copy], Slot(line, position), x);
  }
  Value* LoadReal(Value* line, Value* position) {
    return b_.CreateLoad(type_, b_.CreateGEP(type_, shared_[now_], Slot(line, position)));
  }
  void StoreReal(int copy, Value* line, Value* position, Value* x) {
    b_.CreateStore(Part(x), b_.CreateGEP(type_, shared_[copy], Slot(line, position)));
  }
  void Swap() {
    f_.EmitBarrier();
    now_ = 1 - now_;
  }

  // ---- Complex lines.

  // A first pass reads the array, and a last one writes it, where neighbouring threads have neighbouring elements.
  bool IsDirect(size_t pass) const {
    const bool at_end = pass == 0 ? stage_.reads_rows() : stage_.writes_rows();
    return passes_.size() > 1 && at_end && passes_[pass].radix <= FftButterflies::kMaxRadix;
  }

  void EmitComplex() {
    const int64_t lines = stage_.lines_of_block, length = stage_.length;
    if (!IsDirect(0)) {
      ForEachMoved(lines * length, [&](Value* item) {
        auto [line, position] = Split(item, stage_.reads_rows());
        StoreShared(0, line, position, LoadPair(pair_, from_, ComputeAddress(IndexOfLine(line), position, false)));
      });
      f_.EmitBarrier();
    }
    for (size_t k = 0; k < passes_.size(); ++k) {
      const bool last = k + 1 == passes_.size();
      passes_[k].radix <= FftButterflies::kMaxRadix ? EmitPass(passes_[k], k == 0 && IsDirect(k), last && IsDirect(k))
                                                    : EmitLongPass(passes_[k]);
      if (last && IsDirect(k)) return;
      Swap();
    }
    ForEachMoved(lines * length, [&](Value* item) {
      auto [line, position] = Split(item, stage_.writes_rows());
      f_.scopes.If(Exists(line), [&, line = line, position = position] {
        StoreGlobal(IndexOfLine(line), position, LoadShared(line, position));
      });
    });
  }

  // The line and the position of one of the numbers of a block: neighbours follow one another in a line, or in lines
  // side by side.
  std::pair<Value*, Value*> Split(Value* item, bool rows) {
    if (rows) return Divide(item, stage_.length);
    auto [position, line] = Divide(item, stage_.lines_of_block);
    return {line, position};
  }

  void StoreGlobal(const LineIndex& index, Value* position, FftNumber x) {
    if (stage_.after > 1) x = ApplyTwiddleBetweenStages(index, position, x);
    if (stage_.scale != 1) x = butterflies_.Scale(x, stage_.scale);
    StorePair(to_, ComputeAddress(index, position, true), x);
  }

  // By the root c k of the length that is left. Its table would be long, so the root is a product of two, in f64.
  FftNumber ApplyTwiddleBetweenStages(const LineIndex& index, Value* position, FftNumber x) {
    const int64_t n = stage_.length * stage_.after;
    const int shift = std::bit_width(static_cast<uint64_t>(n)) / 2;
    const int64_t step = int64_t{1} << shift;
    if (fine_ == nullptr) {
      const fft::Roots unity(n);
      Unity fine, coarse;
      for (int64_t k = 0; k < step; ++k) fine.push_back(unity.operator()<double>(k % n));
      for (int64_t k = 0; k < n; k += step) coarse.push_back(unity.operator()<double>(k));
      fine_ = AddTable(fine, true), coarse_ = AddTable(coarse, true);
    }
    Value* exponent = b_.CreateMul(index.c, b_.CreateZExtOrTrunc(position, wide_));
    auto* type = llvm::FixedVectorType::get(b_.getDoubleTy(), 2);
    const FftNumber a = LoadPair(type, fine_, b_.CreateAnd(exponent, Wide(step - 1)));
    const FftNumber c = LoadPair(type, coarse_, b_.CreateLShr(exponent, Wide(shift)));
    Value* r = b_.CreateFSub(b_.CreateFMul(a.r, c.r), b_.CreateFMul(a.i, c.i));
    Value* i = b_.CreateFAdd(b_.CreateFMul(a.r, c.i), b_.CreateFMul(a.i, c.r));
    if (!is_double_) r = b_.CreateFPTrunc(r, type_), i = b_.CreateFPTrunc(i, type_);
    return butterflies_.ApplyTwiddle(x, {r, i});
  }

  // A number of the line and its butterfly: those of a line are `i + ido k`.
  struct ButterflyIndex {
    Value *line, *of_line, *i, *k;
  };
  ButterflyIndex UnitOf(Value* item, const FftPass& pass) {
    ButterflyIndex u;
    std::tie(u.line, u.of_line) = Divide(item, stage_.length / pass.radix);
    std::tie(u.k, u.i) = Divide(u.of_line, pass.ido);
    return u;
  }
  Value* Source(const FftPass& pass, const ButterflyIndex& u, int64_t j) {
    return Add(Add(u.i, Multiply(u.k, pass.ido * pass.radix)), Number(pass.ido * j));
  }
  Value* Destination(const FftPass& pass, const ButterflyIndex& u, int64_t j) {
    return Add(u.of_line, Number(pass.ido * pass.l1 * j));
  }

  // The roots of a pass by the row j - 1 and i.
  Value* AddTwiddles(const FftPass& pass, int64_t count) {
    Unity roots;
    for (int64_t j = 1; j < pass.radix; ++j) {
      for (int64_t i = 0; i < count; ++i) roots.push_back(Unit(j * pass.l1 * i));
    }
    return AddTable(roots, is_double_);
  }

  void EmitPass(const FftPass& pass, bool reads_array, bool writes_array) {
    Value* twiddles = pass.ido > 1 ? AddTwiddles(pass, pass.ido) : nullptr;
    ForEach(stage_.lines_of_block * stage_.length / pass.radix, [&](Value* item) {
      const ButterflyIndex u = UnitOf(item, pass);
      LineIndex index;
      if (reads_array || writes_array) index = IndexOfLine(u.line);
      Numbers x;
      for (int64_t j = 0; j < pass.radix; ++j) {
        Value* at = Source(pass, u, j);
        x.push_back(reads_array ? LoadPair(pair_, from_, ComputeAddress(index, at, false)) : LoadShared(u.line, at));
      }
      Numbers y = butterflies_.Transform(x);
      for (int64_t j = 1; j < pass.radix && twiddles != nullptr; ++j) {
        FftNumber& z = y[static_cast<size_t>(j)];
        z = butterflies_.ApplyTwiddle(z, Root(twiddles, Add(u.i, Number((j - 1) * pass.ido))));
      }
      f_.scopes.If(writes_array ? Exists(u.line) : nullptr, [&] {
        for (int64_t j = 0; j < pass.radix; ++j) {
          Value* at = Destination(pass, u, j);
          const FftNumber z = y[static_cast<size_t>(j)];
          writes_array ? StoreGlobal(index, at, z) : StoreShared(1 - now_, u.line, at, z);
        }
      });
    });
  }

  // A pass of a large odd radix: first the sums and differences of opposite numbers in place, then a thread computes
  // two opposite results.
  void EmitLongPass(const FftPass& pass) {
    const int64_t half = (pass.radix + 1) / 2, units = stage_.lines_of_block * stage_.length / pass.radix;
    ForEach(units * (half - 1), [&](Value* item) {
      auto [j, unit] = Divide(item, units);
      const ButterflyIndex u = UnitOf(unit, pass);
      Value* first = Add(Source(pass, u, 1), Multiply(j, pass.ido));
      Value* second = b_.CreateSub(Source(pass, u, pass.radix - 1), Multiply(j, pass.ido));
      const FftNumber x = LoadShared(u.line, first), y = LoadShared(u.line, second);
      StoreShared(now_, u.line, first, butterflies_.Add(x, y));
      StoreShared(now_, u.line, second, butterflies_.Subtract(x, y));
    });
    f_.EmitBarrier();
    Value* circle = AddCircle(pass);
    Value* twiddles = pass.ido > 1 ? AddTwiddles(pass, pass.ido) : nullptr;
    ForEach(units * half, [&](Value* item) {
      auto [l, unit] = Divide(item, units);
      const ButterflyIndex u = UnitOf(unit, pass);
      auto load = [&](int64_t j) { return LoadShared(u.line, Source(pass, u, j)); };
      f_.scopes.If(b_.CreateICmpEQ(l, Number(0)), [&] {
        StoreShared(1 - now_, u.line, Destination(pass, u, 0), butterflies_.AddAll(LoadSums(half, load)));
      });
      f_.scopes.If(b_.CreateICmpNE(l, Number(0)), [&, l = l] {
        auto [first, second] = AddLoaded(pass, circle, l, load);
        auto store = [&](FftNumber y, Value* row) {
          if (twiddles != nullptr) {
            Value* at = Add(Multiply(b_.CreateSub(row, Number(1)), pass.ido), u.i);
            y = butterflies_.ApplyTwiddle(y, Root(twiddles, at));
          }
          StoreShared(1 - now_, u.line, Add(u.of_line, Multiply(row, pass.ido * pass.l1)), y);
        };
        store(first, l);
        store(second, b_.CreateSub(Number(pass.radix), l));
      });
    });
  }

  // The roots of j l for 0 < l, j < (radix + 1) / 2.
  Value* AddCircle(const FftPass& pass) {
    Unity roots;
    for (int64_t l = 1; l < (pass.radix + 1) / 2; ++l) {
      for (int64_t j = 1; j < (pass.radix + 1) / 2; ++j)
        roots.push_back(Unit(j * l % pass.radix * (stage_.length / pass.radix)));
    }
    return AddTable(roots, is_double_);
  }
  // `load` returns number j after the first part of a long pass.
  template <typename Load>
  Numbers LoadSums(int64_t half, const Load& load) {
    Numbers sums;
    for (int64_t j = 0; j < half; ++j) sums.push_back(load(j));
    return sums;
  }
  template <typename Load>
  std::pair<FftNumber, FftNumber> AddLoaded(const FftPass& pass, Value* circle, Value* l, const Load& load) {
    const int64_t half = (pass.radix + 1) / 2;
    Numbers differences, roots;
    Value* row = Multiply(b_.CreateSub(l, Number(1)), half - 1);
    for (int64_t j = 1; j < half; ++j) {
      differences.push_back(load(pass.radix - j));
      roots.push_back(Root(circle, Add(row, Number(j - 1))));
    }
    return butterflies_.AddProducts(LoadSums(half, load), differences, roots);
  }

  // ---- Real lines. The spectrum is packed as the definition packs it (core/ops/families/fft_real.h).

  void EmitReal() {
    const bool forward = stage_.forward;
    if (forward) {
      ForEachMoved(stage_.lines_of_block * stage_.length, [&](Value* item) {
        auto [line, position] = Divide(item, stage_.length);
        Value* at = Add(Multiply(GlobalLine(line), stage_.length), b_.CreateZExtOrTrunc(position, wide_));
        StoreReal(0, line, position, b_.CreateLoad(type_, b_.CreateGEP(type_, from_, at)));
      });
    } else {
      ForEachMoved(stage_.lines_of_block * Bins(), [&](Value* item) { LoadBin(item); });
    }
    f_.EmitBarrier();
    for (size_t k = 0; k < passes_.size(); ++k) {
      const FftPass& pass = passes_[forward ? passes_.size() - 1 - k : k];
      pass.radix <= FftButterflies::kMaxRadix ? EmitRealPass(pass) : EmitLongRealPass(pass);
      Swap();
    }
    if (forward) {
      ForEachMoved(stage_.lines_of_block * Bins(), [&](Value* item) { StoreBin(item); });
    } else {
      ForEachMoved(stage_.lines_of_block * stage_.length, [&](Value* item) {
        auto [line, position] = Divide(item, stage_.length);
        f_.scopes.If(Exists(line), [&, line = line, position = position] {
          Value* x = LoadReal(line, position);
          if (stage_.scale != 1) x = butterflies_.Times(x, butterflies_.Constant(stage_.scale));
          Value* at = Add(Multiply(GlobalLine(line), stage_.length), b_.CreateZExtOrTrunc(position, wide_));
          b_.CreateStore(x, b_.CreateGEP(type_, to_, at));
        });
      });
    }
  }

  // Whether the bin is that of frequency 0 or n / 2, which is real.
  Value* IsReal(Value* bin) {
    Value* first = b_.CreateICmpEQ(bin, Number(0));
    return stage_.length % 2 != 0 ? first : b_.CreateOr(first, b_.CreateICmpEQ(bin, Number(stage_.length / 2)));
  }
  // The positions of a bin's parts in the packed line.
  Value* RealPosition(Value* bin) {
    return b_.CreateSelect(b_.CreateICmpEQ(bin, Number(0)), bin, b_.CreateSub(Multiply(bin, 2), Number(1)));
  }

  void LoadBin(Value* item) {
    auto [line, bin] = Divide(item, Bins());
    const FftNumber x =
        LoadPair(pair_, from_, Add(Multiply(GlobalLine(line), Bins()), b_.CreateZExtOrTrunc(bin, wide_)));
    StoreReal(0, line, RealPosition(bin), x.r);
    f_.scopes.If(b_.CreateNot(IsReal(bin)), [&, line = line, bin = bin] { StoreReal(0, line, Multiply(bin, 2), x.i); });
  }
  void StoreBin(Value* item) {
    auto [line, bin] = Divide(item, Bins());
    f_.scopes.If(Exists(line), [&, line = line, bin = bin] {
      Value* is_real = IsReal(bin);
      Value* at = RealPosition(bin);
      Value* i = LoadReal(line, b_.CreateSelect(is_real, at, Multiply(bin, 2)));
      StorePair(to_, Add(Multiply(GlobalLine(line), Bins()), b_.CreateZExtOrTrunc(bin, wide_)),
                {LoadReal(line, at), b_.CreateSelect(is_real, Part(nullptr), i)});
    });
  }

  // What a thread computes of a pass over real lines: the packed numbers i - 1 and i = 2 v of each row, and their
  // mirror images; of the first number (v = 0), or of the last one where their count is even, alone.
  struct RealUnit {
    Value *line, *k, *v, *i, *mirrored;
  };
  static int64_t CountUnits(const FftPass& pass) { return pass.ido / 2 + 1; }
  RealUnit RealUnitOf(Value* item, const FftPass& pass) {
    RealUnit u;
    std::tie(u.line, item) = Divide(item, pass.l1 * CountUnits(pass));
    std::tie(u.k, u.v) = Divide(item, CountUnits(pass));
    u.i = Multiply(u.v, 2);
    u.mirrored = b_.CreateSub(Number(pass.ido), u.i);
    return u;
  }
  // The positions of packed number `i` of row `row` of line k, in the order of the whole line and divided into spectra.
  Value* Whole(const FftPass& pass, const RealUnit& u, Value* i, int64_t row) {
    return Add(Add(i, Multiply(u.k, pass.ido)), Number(pass.ido * pass.l1 * row));
  }
  Value* Divided(const FftPass& pass, const RealUnit& u, Value* i, int64_t row) {
    return Add(Add(i, Multiply(u.k, pass.ido * pass.radix)), Number(pass.ido * row));
  }

  void EmitRealPass(const FftPass& pass) {
    const int64_t lines = stage_.lines_of_block, count = CountUnits(pass);
    Value* twiddles = pass.ido > 2 ? AddTwiddles(pass, count) : nullptr;
    ForEach(lines * pass.l1 * count, [&](Value* item) {
      const RealUnit u = RealUnitOf(item, pass);
      const bool has_tail = pass.ido % 2 == 0;
      auto transform = [&](bool pairs) {
        Numbers x, roots(1);
        for (int64_t row = 1; row < pass.radix && pairs; ++row)
          roots.push_back(Root(twiddles, Add(u.v, Number((row - 1) * count))));
        for (int64_t row = 0; row < pass.radix; ++row) x.push_back(LoadRow(pass, u, row, pairs));
        if (stage_.forward && pairs) {
          for (size_t row = 1; row < x.size(); ++row) x[row] = butterflies_.ApplyTwiddle(x[row], roots[row]);
        }
        Numbers y = butterflies_.Transform(x);
        if (!stage_.forward && pairs) {
          for (size_t row = 1; row < y.size(); ++row) y[row] = butterflies_.ApplyTwiddle(y[row], roots[row]);
        }
        for (int64_t row = 0; row < pass.radix; ++row) StoreRow(pass, u, row, y[static_cast<size_t>(row)], pairs);
      };
      f_.scopes.If(b_.CreateICmpEQ(u.v, Number(0)), [&] { transform(false); });
      if (pass.ido > 2) {
        Value* is_pair = b_.CreateICmpNE(u.v, Number(0));
        if (has_tail) is_pair = b_.CreateAnd(is_pair, b_.CreateICmpNE(u.v, Number(count - 1)));
        f_.scopes.If(is_pair, [&] { transform(true); });
      }
      if (has_tail) f_.scopes.If(b_.CreateICmpEQ(u.v, Number(count - 1)), [&] { EmitTail(pass, u); });
    });
  }

  // Number `row` of the transform that a thread computes, and where it puts result `row`. In the divided order, a
  // spectrum has the numbers of a row and the mirror images of another one.
  FftNumber LoadRow(const FftPass& pass, const RealUnit& u, int64_t row, bool pairs) {
    Value* before = b_.CreateSub(u.i, Number(1));
    if (stage_.forward) {
      if (!pairs) return {LoadReal(u.line, Whole(pass, u, Number(0), row)), nullptr};
      return {LoadReal(u.line, Whole(pass, u, before, row)), LoadReal(u.line, Whole(pass, u, u.i, row))};
    }
    return LoadDivided(pass, u, row, pairs);
  }
  void StoreRow(const FftPass& pass, const RealUnit& u, int64_t row, FftNumber y, bool pairs) {
    if (stage_.forward) return StoreDivided(pass, u, row, y, pairs);
    if (!pairs) return StoreReal(1 - now_, u.line, Whole(pass, u, Number(0), row), y.r);
    StoreReal(1 - now_, u.line, Whole(pass, u, b_.CreateSub(u.i, Number(1)), row), y.r);
    StoreReal(1 - now_, u.line, Whole(pass, u, u.i, row), y.i);
  }
  // The positions of the parts of number `row` of a divided spectrum; the second is null where it is real.
  std::pair<Value*, Value*> DividedParts(const FftPass& pass, const RealUnit& u, int64_t row, bool pairs) {
    const int64_t upper = 2 * row > pass.radix ? pass.radix - row : row;  // the one of which it is the mirror image
    if (pairs) {
      if (2 * row < pass.radix) {
        return {Divided(pass, u, b_.CreateSub(u.i, Number(1)), 2 * row), Divided(pass, u, u.i, 2 * row)};
      }
      return {Divided(pass, u, b_.CreateSub(u.mirrored, Number(1)), 2 * upper - 1),
              Divided(pass, u, u.mirrored, 2 * upper - 1)};
    }
    if (row == 0) return {Divided(pass, u, Number(0), 0), nullptr};
    return {Divided(pass, u, Number(pass.ido - 1), 2 * upper - 1),
            2 * row == pass.radix ? nullptr : Divided(pass, u, Number(0), 2 * upper)};
  }
  FftNumber LoadDivided(const FftPass& pass, const RealUnit& u, int64_t row, bool pairs) {
    const auto [r, i] = DividedParts(pass, u, row, pairs);
    const FftNumber x = {LoadReal(u.line, r), i == nullptr ? nullptr : LoadReal(u.line, i)};
    const bool is_mirrored = pairs ? 2 * row >= pass.radix : 2 * row > pass.radix;
    return is_mirrored ? butterflies_.Conjugate(x) : x;
  }
  void StoreDivided(const FftPass& pass, const RealUnit& u, int64_t row, FftNumber y, bool pairs) {
    if (!pairs && 2 * row > pass.radix) return;  // the mirror image of another
    const auto [r, i] = DividedParts(pass, u, row, pairs);
    if (pairs && 2 * row >= pass.radix) y = butterflies_.Conjugate(y);
    StoreReal(1 - now_, u.line, r, y.r);
    if (i != nullptr) StoreReal(1 - now_, u.line, i, y.i);
  }

  // The last number of an even count of packed ones: only radices 2 and 4 have it.
  void EmitTail(const FftPass& pass, const RealUnit& u) {
    constexpr double kRoot2 = 1.414213562373095048801688724209698;
    Value *last = Number(pass.ido - 1), *first = Number(0);
    FftButterflies& m = butterflies_;
    auto whole = [&](int64_t row) { return LoadReal(u.line, Whole(pass, u, last, row)); };
    auto divided = [&](Value* i, int64_t row) { return LoadReal(u.line, Divided(pass, u, i, row)); };
    auto store_divided = [&](Value* i, int64_t row, Value* x) {
      StoreReal(1 - now_, u.line, Divided(pass, u, i, row), x);
    };
    auto store_whole = [&](int64_t row, Value* x) { StoreReal(1 - now_, u.line, Whole(pass, u, last, row), x); };
    if (stage_.forward && pass.radix == 2) {
      Value *x = whole(0), *y = whole(1);
      store_divided(first, 1, m.Negate(y));
      store_divided(last, 0, x);
    } else if (stage_.forward) {
      Value *a = whole(0), *x = whole(1), *c = whole(2), *y = whole(3);
      Value* half = m.Constant(is_double_ ? kRoot2 / 2 : static_cast<float>(kRoot2) / 2);
      Value *ti = m.Times(m.Negate(half), m.Plus(x, y)), *tr = m.Times(half, m.Minus(x, y));
      store_divided(last, 0, m.Plus(a, tr));
      store_divided(last, 2, m.Minus(a, tr));
      store_divided(first, 3, m.Plus(ti, c));
      store_divided(first, 1, m.Minus(ti, c));
    } else if (pass.radix == 2) {
      Value *x = divided(last, 0), *y = divided(first, 1);
      store_whole(0, m.Times(m.Constant(2), x));
      store_whole(1, m.Times(m.Constant(-2), y));
    } else {
      Value *a = divided(first, 3), *x = divided(first, 1), *c = divided(last, 0), *y = divided(last, 2);
      Value *ti1 = m.Plus(a, x), *ti2 = m.Minus(a, x), *tr2 = m.Plus(c, y), *tr1 = m.Minus(c, y);
      store_whole(0, m.Plus(tr2, tr2));
      store_whole(1, m.Times(m.Constant(kRoot2), m.Minus(tr1, ti1)));
      store_whole(2, m.Plus(ti2, ti2));
      store_whole(3, m.Times(m.Constant(-kRoot2), m.Plus(tr1, ti1)));
    }
  }

  // As EmitLongPass. The numbers of a radix above kMaxRadix are odd, so there is no tail.
  void EmitLongRealPass(const FftPass& pass) {
    const int64_t half = (pass.radix + 1) / 2, count = CountUnits(pass);
    const int64_t units = stage_.lines_of_block * pass.l1 * count;
    Value* twiddles = pass.ido > 2 ? AddTwiddles(pass, count) : nullptr;
    Value* circle = AddCircle(pass);
    auto by_kind = [&](const RealUnit& u, const std::function<void(bool)>& body) {
      if (pass.ido == 1) return body(false);
      f_.scopes.If(b_.CreateICmpEQ(u.v, Number(0)), [&] { body(false); });
      f_.scopes.If(b_.CreateICmpNE(u.v, Number(0)), [&] { body(true); });
    };
    // Sums take the place of number j, differences that of number radix - j.
    auto places = [&](const RealUnit& u, int64_t row, bool pairs) -> std::pair<Value*, Value*> {
      if (!stage_.forward) {
        if (pairs || row == 0 || 2 * row < pass.radix) return DividedParts(pass, u, row, pairs);
        const auto [r, i] = DividedParts(pass, u, row, pairs);  // those of its mirror image
        return {r, i};
      }
      if (!pairs) return {Whole(pass, u, Number(0), row), nullptr};
      return {Whole(pass, u, b_.CreateSub(u.i, Number(1)), row), Whole(pass, u, u.i, row)};
    };
    auto load = [&](const RealUnit& u, std::pair<Value*, Value*> at) -> FftNumber {
      return {LoadReal(u.line, at.first), at.second == nullptr ? nullptr : LoadReal(u.line, at.second)};
    };
    auto store = [&](const RealUnit& u, std::pair<Value*, Value*> at, FftNumber x) {
      StoreReal(now_, u.line, at.first, x.r);
      if (at.second != nullptr) StoreReal(now_, u.line, at.second, x.i);
    };
    // One thread does all rows of a unit.
    ForEach(units, [&](Value* item) {
      const RealUnit u = RealUnitOf(item, pass);
      by_kind(u, [&](bool pairs) {
        if (!stage_.forward && !pairs) return;  // both are parts of one number: 2 r and 2 i
        for (int64_t j = 1; j < half; ++j) {
          const auto first = places(u, j, pairs), second = places(u, pass.radix - j, pairs);
          FftNumber x = load(u, first), y = load(u, second);
          if (stage_.forward && pairs) {
            x = butterflies_.ApplyTwiddle(x, Root(twiddles, Add(u.v, Number((j - 1) * count))));
            y = butterflies_.ApplyTwiddle(y, Root(twiddles, Add(u.v, Number((pass.radix - j - 1) * count))));
          }
          if (!stage_.forward) y = butterflies_.Conjugate(y);
          store(u, first, butterflies_.Add(x, y));
          store(u, second, butterflies_.Subtract(x, y));
        }
      });
    });
    f_.EmitBarrier();
    ForEach(units * half, [&](Value* item) {
      auto [l, unit] = Divide(item, units);
      const RealUnit u = RealUnitOf(unit, pass);
      by_kind(u, [&, l = l](bool pairs) {
        auto number = [&](int64_t row) -> FftNumber {
          if (stage_.forward || pairs || row == 0) return load(u, places(u, row, pairs));
          // A number and its mirror image: their sum is real, their difference imaginary.
          const auto [r, i] = DividedParts(pass, u, row, pairs);
          if (2 * row < pass.radix) return {butterflies_.Times(butterflies_.Constant(2), LoadReal(u.line, r)), nullptr};
          return {nullptr, butterflies_.Times(butterflies_.Constant(2), LoadReal(u.line, i))};
        };
        f_.scopes.If(b_.CreateICmpEQ(l, Number(0)),
                     [&] { StoreRow(pass, u, 0, butterflies_.AddAll(LoadSums(half, number)), pairs); });
        f_.scopes.If(b_.CreateICmpNE(l, Number(0)), [&] {
          auto [first, second] = AddLoaded(pass, circle, l, number);
          StoreLong(pass, u, l, first, second, twiddles, pairs);
        });
      });
    });
  }

  // Results l and radix - l, for a row that is a number of the thread.
  void StoreLong(const FftPass& pass, const RealUnit& u, Value* l, FftNumber first, FftNumber second, Value* twiddles,
                 bool pairs) {
    const int64_t count = CountUnits(pass);
    Value *other = b_.CreateSub(Number(pass.radix), l), *before = b_.CreateSub(u.i, Number(1));
    auto store = [&](Value* at, Value* x) { StoreReal(1 - now_, u.line, at, x); };
    if (stage_.forward) {
      auto divided = [&](Value* i, Value* row) {
        return Add(Add(i, Multiply(u.k, pass.ido * pass.radix)), Multiply(row, pass.ido));
      };
      Value *even = Multiply(l, 2), *odd = b_.CreateSub(even, Number(1));
      if (!pairs) {
        store(divided(Number(pass.ido - 1), odd), first.r);
        store(divided(Number(0), even), first.i);
        return;
      }
      store(divided(before, even), first.r);
      store(divided(u.i, even), first.i);
      store(divided(b_.CreateSub(u.mirrored, Number(1)), odd), second.r);
      store(divided(u.mirrored, odd), butterflies_.Negate(second.i));
      return;
    }
    auto whole = [&](Value* i, Value* row) {
      return Add(Add(i, Multiply(u.k, pass.ido)), Multiply(row, pass.ido * pass.l1));
    };
    auto store_row = [&](Value* row, FftNumber y) {
      if (!pairs) return store(whole(Number(0), row), y.r);
      y = butterflies_.ApplyTwiddle(y, Root(twiddles, Add(u.v, Multiply(b_.CreateSub(row, Number(1)), count))));
      store(whole(before, row), y.r);
      store(whole(u.i, row), y.i);
    };
    store_row(l, first);
    store_row(other, second);
  }

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  const FftStage& stage_;
  const std::vector<FftPass> passes_;
  const fft::Roots unity_;
  const bool is_double_;
  llvm::Type* const type_;
  llvm::FixedVectorType* const pair_;
  FftButterflies butterflies_;
  llvm::IntegerType* wide_ = nullptr;  // counts elements
  Value *from_ = nullptr, *to_ = nullptr;
  Value* shared_[2] = {nullptr, nullptr};
  int now_ = 0;        // the copy that has the numbers
  int64_t slots_ = 0;  // of a line
  Value* first_line_ = nullptr;
  Value *fine_ = nullptr, *coarse_ = nullptr;
};

}  // namespace

void EmitBody(KernelFrame& frame, const Instruction& fft, const FftPlan& plan) {
  FftEmitter(frame, fft, plan.stages[static_cast<size_t>(frame.plan.kernel)]).Emit();
}

}  // namespace backplane::hip
