#include "sdk/engine/codegen/phase_emitter.h"

#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/planner.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine::codegen {

using llvm::Value;

PhaseEmitter::PhaseEmitter(ElementEmitter& elements, const FusionPlan& plan, const Phase& phase,
                           const jit::HostInfo& host)
    : e_(elements), plan_(plan), phase_(phase), host_(host), body_(elements, vars_, host), b_(elements.b()) {}

absl::Status PhaseEmitter::Emit(const std::string& symbol) {
  llvm::LLVMContext& context = e_.context();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, b_.getInt64Ty(), b_.getInt64Ty(), pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, e_.module());
  backplane::codegen::SetKernelAttributes(*function, host_.target);
  begin_ = function->getArg(1);
  end_ = function->getArg(2);
  scratch_ = function->getArg(3);
  b_.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  int count = plan_.inputs + plan_.outputs + static_cast<int>(plan_.temp_bytes.size());
  for (int i = 0; i < count; ++i) {
    buffers_.push_back(
        b_.CreateAlignedLoad(pointer, b_.CreateConstGEP1_64(pointer, function->getArg(0), i), llvm::Align(8)));
  }
  for (int i = 0; i < plan_.inputs; ++i) {
    const Instruction* p = plan_.computation->parameter(i);
    body_.SetArray(p, 0, {buffers_[i], p->shape().element_type()});
  }
  for (const Materialized& m : phase_.reads) {
    const Shape& s = m.instruction->shape();
    body_.SetArray(m.instruction, m.element,
                   {buffers_[m.buffer], (s.IsTuple() ? s.tuple_shapes(m.element) : s).element_type()});
  }
  for (const Phase::PartialUse& p : phase_.partials) {
    PartialsRef ref;
    for (int buffer : p.buffers) ref.bases.push_back(buffers_[buffer]);
    ref.count = p.count;
    ref.elements = p.elements;
    body_.SetPartials(p.reduce, std::move(ref));
  }
  for (const Instruction* x : phase_.kept) {
    KeptRow row;
    row.base = ScratchAt(RoundUp(phase_.kept_length * RowBytes(x->shape().element_type()) + 256, 64));
    row.length = phase_.kept_length;
    body_.SetKept(x, row);
  }
  for (const auto& joint : phase_.joint) body_.SetJoint(joint);
  loops_ = MakeLoops(vars_, phase_);
  switch (phase_.kind) {
    case PhaseKind::kLoop:
      Loop();
      break;
    case PhaseKind::kScalars:
      Scalars();
      break;
    case PhaseKind::kPartials:
      Partials();
      break;
    case PhaseKind::kColumns:
    case PhaseKind::kPartialColumns:
      Columns();
      break;
    case PhaseKind::kTranspose:
      phase_.staged ? TransposeStaged() : Transpose();
      break;
    case PhaseKind::kScatter:
      Scatter();
      break;
    case PhaseKind::kSelectAndScatter:
      SelectAndScatter();
      break;
    case PhaseKind::kScan:
      Scan();
      break;
  }
  b_.CreateRetVoid();
  return e_.status();
}

int64_t PhaseEmitter::ExtentOf(int group) const {
  int64_t n = 1;
  for (int i : phase_.groups[group]) n *= phase_.extents[i];
  return n;
}

Value* PhaseEmitter::ScratchAt(int64_t bytes) {
  Value* r = b_.CreateConstGEP1_64(b_.getInt8Ty(), scratch_, scratch_used_);
  scratch_used_ += bytes;
  return r;
}

ArrayRef PhaseEmitter::BufferOf(const Target& t) {
  const Shape& s = t.instruction->shape();
  return {buffers_[t.buffer], (s.IsTuple() ? s.tuple_shapes(t.element) : s).element_type()};
}

void PhaseEmitter::Units(const std::function<void(Value*)>& body) {
  std::vector<Value*> none;
  body_.Loop(begin_, end_, 1, none, [&](Value* iv, std::vector<Value*>&) { body(iv); });
}

Value* PhaseEmitter::Take(Value*& unit, int64_t extent) {
  Value* r = b_.CreateURem(unit, b_.getInt64(extent));
  unit = b_.CreateUDiv(unit, b_.getInt64(extent));
  return r;
}

void PhaseEmitter::CountUnits(Value*& unit, int count) {
  for (int g = count - 1; g >= 0; --g) {
    Value* value = g == 0 ? unit : Take(unit, ExtentOf(g));
    body_.Count(loops_.groups[g], value);
  }
}

void PhaseEmitter::Lanes(int g, Value* begin, Value* end, const std::function<void(const Guards&)>& fn) {
  int64_t n = ExtentOf(g), lanes = phase_.lanes;
  const std::vector<VarId>& vars = loops_.groups[g];
  std::vector<Value*> none;
  if (lanes == 0) {
    if (n == 1) {
      return body_.Block([&] {
        body_.Count(vars, b_.getInt64(0));
        fn({});
      });
    }
    body_.Loop(begin, end, 1, none, [&](Value* iv, std::vector<Value*>&) {
      body_.Count(vars, iv);
      fn({});
    });
    return;
  }
  if (n <= lanes) {
    return body_.Block([&] {
      body_.Count(vars, b_.getInt64(0), static_cast<int>(lanes));
      Guards tail;
      if (n < lanes) tail.push_back(body_.TailGuard(vars));
      fn(tail);
    });
  }
  body_.Loop(begin, end, lanes, none, [&](Value* iv, std::vector<Value*>&) {
    Guards tail;
    Value* start = iv;
    if (n % lanes != 0) {
      // The last vector starts early enough to be whole, or has a mask where elements must not be computed twice.
      if (phase_.masked_tail) {
        tail.push_back(body_.TailGuard(vars));
      } else {
        start = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, iv, b_.getInt64(n - lanes));
      }
    }
    body_.Count(vars, start, static_cast<int>(lanes));
    fn(tail);
  });
}

void PhaseEmitter::EvalAndStore(const Guards& guards, bool rows) {
  std::vector<Val> values;
  std::vector<Affine> addresses;
  for (const Target& t : phase_.targets) {
    if (t.row != rows) continue;
    Index index = TargetIndex(vars_, phase_, loops_, t);
    addresses.push_back(StoreAddress(vars_, t, index));
    bool scalar = t.instruction->shape().IsArray() && t.instruction->shape().rank() == 0;
    values.push_back(body_.Eval(t.instruction, scalar ? Index{} : index, guards, t.element));
  }
  size_t i = 0;
  for (const Target& t : phase_.targets) {
    if (t.row != rows) continue;
    body_.Store(BufferOf(t), addresses[i], values[i], guards);
    ++i;
  }
}

void PhaseEmitter::Loop() {
  if (phase_.unit_groups == 0 && !phase_.rows) {
    int64_t lanes = std::max<int64_t>(phase_.lanes, 1);
    Value* begin = lanes == 1 ? begin_ : b_.CreateMul(begin_, b_.getInt64(lanes));
    Value* end = lanes == 1 ? end_ : b_.CreateMul(end_, b_.getInt64(lanes));
    return Lanes(0, begin, end, [&](const Guards& tail) { EvalAndStore(tail, false); });
  }
  int last = static_cast<int>(phase_.groups.size()) - 1;
  Units([&](Value* unit) {
    int64_t n = ExtentOf(last);
    Value *begin = b_.getInt64(0), *end = b_.getInt64(n);
    if (phase_.inner_block > 0) {
      begin = b_.CreateMul(Take(unit, CeilDiv(n, phase_.inner_block)), b_.getInt64(phase_.inner_block));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, b_.CreateAdd(begin, b_.getInt64(phase_.inner_block)));
    }
    CountUnits(unit, phase_.unit_groups);
    // First: the row may be overwritten by the loops that follow.
    EvalAndStore({}, true);
    auto nest = [&](auto& self, int g) -> void {
      if (g == last) return Lanes(g, begin, end, [&](const Guards& tail) { EvalAndStore(tail, false); });
      std::vector<Value*> none;
      body_.Loop(b_.getInt64(0), b_.getInt64(ExtentOf(g)), 1, none, [&](Value* iv, std::vector<Value*>&) {
        body_.Count(loops_.groups[g], iv);
        self(self, g + 1);
      });
    };
    nest(nest, phase_.unit_groups);
  });
}

void PhaseEmitter::Scalars() {
  Units([&](Value* unit) {
    CountUnits(unit, static_cast<int>(phase_.groups.size()));
    EvalAndStore({}, false);
  });
}

Index PhaseEmitter::ReduceIndex() {
  AccessWalk::ArraySet arrays;
  for (const Materialized& m : phase_.reads) arrays.insert(m.instruction);
  AccessWalk walk(vars_, arrays);
  for (const Target& t : phase_.targets) walk.Visit(t.instruction, TargetIndex(vars_, phase_, loops_, t));
  for (const ReduceUse& u : walk.reduces()) {
    if (u.reduce == phase_.reduces[0]) return u.index;
  }
  e_.Fail(absl::InternalError(absl::StrCat(phase_.reduces[0]->name(), ": not reached from the kernel's outputs")));
  return {};
}

void PhaseEmitter::Partials() {
  VarId block = vars_.Loop(phase_.blocks);
  Units([&](Value* unit) {
    Value* number = Take(unit, phase_.blocks);
    body_.Count({&block, 1}, number);
    CountUnits(unit, static_cast<int>(phase_.groups.size()));
    Index index = ReduceIndex();
    BodyEmitter::Range range;
    range.begin = b_.CreateMul(number, b_.getInt64(phase_.block_size));
    range.end =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(range.begin, b_.getInt64(phase_.block_size)),
                                 b_.getInt64(phase_.block_extent));
    std::vector<Vals> results = body_.ReduceLoops(phase_.reduces, index, {}, &range, false);
    int64_t elements = phase_.work_units / phase_.blocks;
    for (size_t k = 0; k < phase_.reduces.size(); ++k) {
      const Instruction* r = phase_.reduces[k];
      Affine at = Linearize(index, FirstShape(*r).dimensions()).Plus(Affine::Var(block), elements);
      for (size_t i = 0; i < results[k].size(); ++i) {
        body_.StoreRow(buffers_[phase_.partial_buffers[k][i]], at, r->operand(i)->shape().element_type(),
                       results[k][i]);
      }
    }
  });
}

// Accumulators for a block of columns lie in scratch memory, which stays in the first-level cache; rows pass by.
void PhaseEmitter::Columns() {
  int last = static_cast<int>(phase_.groups.size()) - 1;
  int64_t columns = ExtentOf(last), lanes = phase_.lanes, width = phase_.column_block;
  bool partial = phase_.kind == PhaseKind::kPartialColumns;
  const std::vector<VarId>& column_vars = loops_.groups[last];
  std::vector<std::vector<Value*>> accumulators;
  for (const Instruction* r : phase_.reduces) {
    accumulators.emplace_back();
    for (int64_t i = 0; i < r->operand_count() / 2; ++i) {
      accumulators.back().push_back(
          ScratchAt(RoundUp(width * RowBytes(r->operand(i)->shape().element_type()) + 64, 64)));
    }
  }
  VarId block = vars_.Loop(phase_.blocks);
  std::vector<Value*> none;
  Units([&](Value* unit) {
    Value* number = b_.getInt64(0);
    if (partial) {
      number = Take(unit, phase_.blocks);
      body_.Count({&block, 1}, number);
    }
    Value* low = b_.CreateMul(Take(unit, CeilDiv(columns, width)), b_.getInt64(width));
    Value* high =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(low, b_.getInt64(width)), b_.getInt64(columns));
    CountUnits(unit, last);
    // For each vector of the block: its place among the accumulators, and the guards of the tail.
    auto each_vector = [&](const std::function<void(const Affine& slot, const Guards&)>& fn) {
      VarId slot = vars_.Loop(width);
      auto run = [&](Value* iv) {
        Value* start = columns > lanes && columns % lanes != 0
                           ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, iv, b_.getInt64(columns - lanes))
                           : iv;
        body_.Count({&slot, 1}, b_.CreateSub(iv, low), static_cast<int>(lanes));
        body_.Count(column_vars, start, static_cast<int>(lanes));
        Guards tail;
        if (columns < lanes) tail.push_back(body_.TailGuard(column_vars));
        fn(Affine::Var(slot), tail);
      };
      body_.Loop(low, high, lanes, none, [&](Value* iv, std::vector<Value*>&) { run(iv); });
    };
    auto load = [&](size_t k, const Affine& slot) {
      Vals r;
      for (size_t i = 0; i < accumulators[k].size(); ++i) {
        Val v = body_.LoadRow(accumulators[k][i], slot, phase_.reduces[k]->operand(i)->shape().element_type());
        v.stored = nullptr;
        r.push_back(v);
      }
      return r;
    };
    auto store = [&](size_t k, const Affine& slot, const Vals& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        body_.StoreRow(accumulators[k][i], slot, phase_.reduces[k]->operand(i)->shape().element_type(),
                       e_.Splat(values[i], static_cast<int>(lanes)));
      }
    };
    auto identity_known = [&](const Instruction* r) { return body_.HasIdentities(*r); };
    each_vector([&](const Affine& slot, const Guards&) {
      for (size_t k = 0; k < phase_.reduces.size(); ++k) {
        store(k, slot, body_.InitialValues(*phase_.reduces[k], identity_known(phase_.reduces[k])));
      }
    });

    Index index = ReduceIndex();
    AccessWalk::ArraySet arrays;
    for (const Materialized& m : phase_.reads) arrays.insert(m.instruction);
    std::vector<ReduceNest> rows;
    for (int k = 0; k < phase_.unroll; ++k) rows.push_back(AnalyzeReduce(vars_, arrays, phase_.reduces, index));
    auto nest = [&](auto& self, size_t g) -> void {
      if (g == rows[0].groups.size()) {
        each_vector([&](const Affine& slot, const Guards& tail) {
          for (size_t k = 0; k < phase_.reduces.size(); ++k) {
            const Instruction* r = phase_.reduces[k];
            Vals acc = load(k, slot);
            for (const ReduceNest& row : rows) {
              Index in = ReduceOperandIndex(*r, index, row.reduced);
              Vals inputs;
              for (int64_t i = 0; i < r->operand_count() / 2; ++i)
                inputs.push_back(body_.Eval(r->operand(i), in, tail));
              acc = body_.Combine(*r, acc, inputs, false, body_.ActiveIn(*r->called(0), tail));
            }
            store(k, slot, acc);
          }
        });
        return;
      }
      int64_t n = 1;
      for (VarId v : rows[0].groups[g]) n *= vars_.extent(v);
      bool innermost = g + 1 == rows[0].groups.size();
      Value *begin = b_.getInt64(0), *end = b_.getInt64(n);
      if (g == 0 && partial) {
        begin = b_.CreateMul(number, b_.getInt64(phase_.block_size));
        end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, b_.getInt64(phase_.block_size)), end);
      }
      body_.Loop(begin, end, innermost ? phase_.unroll : 1, none, [&](Value* iv, std::vector<Value*>&) {
        for (int k = 0; k < phase_.unroll; ++k) {
          body_.Count(rows[k].groups[g], innermost && k > 0 ? b_.CreateAdd(iv, b_.getInt64(k)) : iv);
        }
        self(self, g + 1);
      });
    };
    nest(nest, 0);

    each_vector([&](const Affine& slot, const Guards& tail) {
      for (size_t k = 0; k < phase_.reduces.size(); ++k) {
        const Instruction* r = phase_.reduces[k];
        Vals acc = load(k, slot);
        if (partial) {
          int64_t elements = phase_.work_units / (phase_.blocks * CeilDiv(columns, width)) * columns;
          Affine at = Linearize(index, FirstShape(*r).dimensions()).Plus(Affine::Var(block), elements);
          for (size_t i = 0; i < acc.size(); ++i) {
            PrimitiveType t = r->operand(i)->shape().element_type();
            body_.Store({buffers_[phase_.partial_buffers[k][i]], IsNarrowFloat(t) ? PrimitiveType::kF32 : t}, at,
                        acc[i], tail);
          }
          continue;
        }
        if (identity_known(r)) acc = body_.Combine(*r, body_.InitialValues(*r, false), acc);
        for (size_t i = 0; i < acc.size(); ++i) {
          PrimitiveType t = r->operand(i)->shape().element_type();
          body_.SetValue(r, static_cast<int>(i), IsNarrowFloat(t) ? e_.Round(t, acc[i].v) : acc[i]);
        }
      }
      if (!partial) EvalAndStore(tail, false);
    });
  });
}

}  // namespace backplane::engine::codegen
