// Scatter and select-and-scatter: updates of an output that is there already, one after another where they may meet.
#include <bit>

#include "sdk/engine/codegen/phase_emitter.h"
#include "sdk/engine/codegen/planner.h"

namespace backplane::engine::codegen {

using llvm::Value;

void PhaseEmitter::Scatter() {
  const Instruction* op = phase_.special;
  const ScatterDimensions& s = op->scatter_dims();
  int64_t n = (op->operand_count() - 1) / 2;
  const Instruction* indices = op->operand(n);
  const Shape &updates = op->operand(n + 1)->shape(), &operand = op->operand(0)->shape();
  auto at = [](const Ints& v, int64_t d) {
    auto it = std::find(v.begin(), v.end(), d);
    return it == v.end() ? int64_t{-1} : static_cast<int64_t>(it - v.begin());
  };
  int64_t rank = updates.rank(), lanes = phase_.lanes;

  // One variable for each dimension of the updates; scatter dimensions outside, window dimensions inside.
  std::vector<VarId> vars(rank, -1);
  Index update_index(rank);
  std::vector<int64_t> order;
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t d = 0; d < rank; ++d) {
      if ((at(s.update_window_dims, d) >= 0) == (pass == 1)) order.push_back(d);
    }
  }
  int64_t lane_dim = lanes > 0 ? rank - 1 : -1;
  std::vector<int64_t> loops;
  for (int64_t d : order) {
    if (updates.dimensions(d) == 1 && d != lane_dim) {
      update_index[d] = Affine::Const(0);
      continue;
    }
    vars[d] = vars_.Loop(updates.dimensions(d));
    update_index[d] = Affine::Var(vars[d]);
    if (d != lane_dim) loops.push_back(d);
  }
  std::vector<int64_t> scatter_dims;  // of the updates
  for (int64_t d = 0; d < rank; ++d) {
    if (at(s.update_window_dims, d) < 0) scatter_dims.push_back(d);
  }
  // The element of the operand that an element of the updates goes to.
  constexpr int64_t kFar = int64_t{1} << 40;
  Index target(operand.rank());
  Guards guards;
  size_t window = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    int64_t batching = at(s.input_batching_dims, d);
    if (batching >= 0) {
      int64_t k = s.scatter_indices_batching_dims[batching];
      target[d] = update_index[scatter_dims[k - (k > s.index_vector_dim ? 1 : 0)]];
      continue;
    }
    if (at(s.inserted_window_dims, d) < 0) target[d] = update_index[s.update_window_dims[window++]];
    int64_t mapped = at(s.scatter_dims_to_operand_dims, d);
    if (mapped >= 0) {
      Index where;
      size_t next = 0;
      for (int64_t k = 0; k < indices->shape().rank(); ++k) {
        where.push_back(k == s.index_vector_dim ? Affine::Const(mapped) : update_index[scatter_dims[next++]]);
      }
      target[d].Add(vars_.Runtime(indices, where, -kFar, kFar, true));
      AddGuard(vars_, guards, target[d], 0, operand.dimensions(d));
    }
  }
  Affine address = Linearize(target, operand.dimensions());
  Guards uniform, by_lane;

  auto update = [&](const Guards& tail) {
    for (const Guard& g : guards) (body_.HasLanes(g.e) ? by_lane : uniform).push_back(g);
    auto apply = [&] {
      Guards inner = tail;
      for (const Guard& g : by_lane) inner.insert(std::lower_bound(inner.begin(), inner.end(), g), g);
      Vals args;
      for (int64_t i = 0; i < n; ++i) {
        args.push_back(
            body_.Load({buffers_[phase_.targets[i].buffer], op->operand(i)->shape().element_type()}, address, inner));
      }
      for (int64_t i = 0; i < n; ++i) args.push_back(body_.Eval(op->operand(n + 1 + i), update_index, tail));
      Vals results = body_.Call(*op->called(0), args, true, body_.ActiveIn(*op->called(0), inner));
      for (int64_t i = 0; i < n; ++i) {
        body_.Store({buffers_[phase_.targets[i].buffer], op->operand(i)->shape().element_type()}, address, results[i],
                    inner);
      }
    };
    if (uniform.empty()) {
      apply();
    } else {
      body_.If(body_.Mask(uniform), apply);
    }
  };
  Units([&](Value* unit) {
    std::vector<Value*> none;
    auto nest = [&](auto& self, size_t k) -> void {
      if (k < loops.size()) {
        body_.Loop(b_.getInt64(0), b_.getInt64(updates.dimensions(loops[k])), 1, none,
                   [&](Value* iv, std::vector<Value*>&) {
                     body_.Count({&vars[loops[k]], 1}, iv);
                     self(self, k + 1);
                   });
        return;
      }
      if (lanes == 0) return body_.Block([&] { update({}); });
      int64_t extent = updates.dimensions(lane_dim);
      Value* begin = b_.CreateMul(unit, b_.getInt64(phase_.inner_block));
      Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, b_.getInt64(phase_.inner_block)),
                                            b_.getInt64(extent));
      body_.Loop(begin, end, lanes, none, [&](Value* iv, std::vector<Value*>&) {
        body_.Count({&vars[lane_dim], 1}, iv, static_cast<int>(lanes));
        Guards tail;
        if (extent % lanes != 0) tail.push_back(body_.TailGuard({&vars[lane_dim], 1}));
        update(tail);
      });
    };
    nest(nest, 0);
  });
}

void PhaseEmitter::SelectAndScatter() {
  const Instruction* op = phase_.special;
  const Instruction *operand = op->operand(0), *source = op->operand(1);
  const Shape& shape = source->shape();
  const DimVector& dims = operand->shape().dimensions();
  PrimitiveType type = operand->shape().element_type();
  int64_t rank = shape.rank(), lanes = phase_.lanes;
  int64_t lane_dim = lanes > 0 ? rank - 1 : -1;
  std::vector<VarId> vars(rank);
  Index index(rank);
  for (int64_t d = 0; d < rank; ++d) {
    vars[d] = vars_.Loop(shape.dimensions(d));
    index[d] = Affine::Var(vars[d]);
  }
  ArrayRef out{buffers_[phase_.targets[0].buffer], type};
  int64_t positions = 1;
  for (const WindowDimension& w : op->window().dimensions) positions *= w.size;

  auto update = [&](const Guards& tail) {
    // The chosen element so far: its value, its address, and whether there is one.
    VarId counter = vars_.Loop(positions);
    std::vector<int64_t> sizes;
    for (const WindowDimension& w : op->window().dimensions) sizes.push_back(w.size);
    Index position = Delinearize(vars_, Affine::Var(counter), sizes);
    int count = static_cast<int>(lanes);
    bool complex = IsComplex(type);
    auto vec = [&](Value* v) { return e_.Splat(v, count); };
    llvm::Constant* zero = llvm::Constant::getNullValue(e_.ComputeType(type));
    std::vector<Value*> carried = {vec(zero), vec(b_.getInt64(0)), vec(b_.getFalse())};
    if (complex) carried.push_back(vec(zero));
    body_.Loop(b_.getInt64(0), b_.getInt64(positions), 1, carried, [&](Value* iv, std::vector<Value*>& now) {
      body_.Count({&counter, 1}, iv);
      Index in;
      Guards guards;
      if (!WindowElement(op->window(), dims, index, position, vars_, in, guards)) return;
      Guards by_lane = tail;
      for (const Guard& g : guards) {
        if (body_.HasLanes(g.e)) by_lane.insert(std::lower_bound(by_lane.begin(), by_lane.end(), g), g);
      }
      Value* mask = body_.Mask(guards);
      Index safe = in;
      for (size_t d = 0; d < safe.size(); ++d) {
        if (!body_.HasLanes(safe[d])) safe[d] = vars_.Clamp(safe[d], 0, dims[d] - 1);
      }
      Val value = e_.Splat(body_.Eval(operand, safe, by_lane), count);
      Val best{now[0], complex ? now[3] : nullptr};
      const Computation& select = *op->called(0);
      // Where nothing is chosen yet there is nothing to compare with.
      Value* active = BodyEmitter::HoldsLoop(select) ? body_.Both(now[2], body_.Both(body_.Mask(tail), mask)) : nullptr;
      Value* keep = body_.Call(select, {best, value}, true, active)[0].v;
      Value* better = b_.CreateOr(b_.CreateNot(now[2]), b_.CreateNot(vec(keep)));
      if (mask) better = b_.CreateAnd(better, vec(mask));
      Value* address = vec(body_.IndexValue(Linearize(safe, dims)));
      llvm::Type* wide = now[1]->getType();
      address = b_.CreateSExtOrTrunc(address, wide);
      now[0] = b_.CreateSelect(better, value.v, now[0]);
      now[1] = b_.CreateSelect(better, address, now[1]);
      now[2] = b_.CreateOr(now[2], better);
      if (complex) now[3] = b_.CreateSelect(better, value.im, now[3]);
    });
    Val add = body_.Eval(source, index, tail);
    // Lanes differ in the last dimension, so no two of them meet.
    int steps = std::max(count, 1);
    for (int lane = 0; lane < steps; ++lane) {
      auto pick = [&](Value* v) { return v && v->getType()->isVectorTy() ? b_.CreateExtractElement(v, lane) : v; };
      Value* found = pick(carried[2]);
      if (!tail.empty()) found = b_.CreateAnd(found, pick(e_.Splat(body_.Mask(tail), count)));
      Value* where = pick(carried[1]);
      Val x{pick(add.v), pick(add.im)};
      body_.If(found, [&] {
        VarId place = vars_.Loop(std::max<int64_t>(1, operand->shape().num_elements()));
        body_.Count({&place, 1}, where);
        Val old = body_.Load(out, Affine::Var(place), {});
        body_.Store(out, Affine::Var(place), body_.Call(*op->called(1), {old, x})[0], {});
      });
    }
  };
  std::vector<Value*> none;
  Units([&](Value* unit) {
    for (int d = phase_.unit_groups - 1; d >= 0; --d) body_.Count({&vars[d], 1}, Take(unit, shape.dimensions(d)));
    auto nest = [&](auto& self, int64_t d) -> void {
      if (d == rank) return body_.Block([&] { update({}); });
      if (d == lane_dim) {
        body_.Loop(b_.getInt64(0), b_.getInt64(shape.dimensions(d)), lanes, none, [&](Value* iv, std::vector<Value*>&) {
          body_.Count({&vars[d], 1}, iv, static_cast<int>(lanes));
          Guards tail;
          if (shape.dimensions(d) % lanes != 0) tail.push_back(body_.TailGuard({&vars[d], 1}));
          update(tail);
        });
        return;
      }
      body_.Loop(b_.getInt64(0), b_.getInt64(shape.dimensions(d)), 1, none, [&](Value* iv, std::vector<Value*>&) {
        body_.Count({&vars[d], 1}, iv);
        self(self, d + 1);
      });
    };
    nest(nest, phase_.unit_groups);
  });
}

// A cumulative reduction. Along the last dimension a vector is scanned in registers, the total carried on; along
// another the vector holds independent lines.
void PhaseEmitter::Scan() {
  const Instruction* op = phase_.special;
  const Shape& shape = op->shape();
  PrimitiveType type = shape.element_type();
  int64_t dim = 0, lanes = phase_.lanes;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (op->window().dimensions[d].size > 1) dim = d;
  }
  bool reverse = op->window().dimensions[dim].padding_low == 0;
  int64_t length = shape.dimensions(dim), outer = 1, inner = 1;
  for (int64_t i = 0; i < dim; ++i) outer *= shape.dimensions(i);
  for (int64_t i = dim + 1; i < shape.rank(); ++i) inner *= shape.dimensions(i);
  VarId outer_var = vars_.Loop(outer), step = vars_.Loop(length), inner_var = vars_.Loop(inner);
  // Position along the line in the direction of the scan; lanes of a reversed line are turned round after loading.
  bool in_register = inner == 1 && lanes > 0;
  Affine along = Affine::Var(step);
  if (reverse) along = along.Times(-1).Plus(length - 1);
  Affine position = Affine::Var(outer_var).Times(length * inner).Plus(along, inner);
  if (inner > 1) position.Add(Affine::Var(inner_var));
  Index index = Delinearize(vars_, position, shape.dimensions());
  Affine address = Linearize(index, shape.dimensions());
  ArrayRef out = BufferOf(phase_.targets[0]);
  auto flat = [](const Val& v) {
    std::vector<Value*> r = {v.v};
    if (v.im) r.push_back(v.im);
    return r;
  };
  auto unflat = [](const std::vector<Value*>& v) { return Val{v[0], v.size() > 1 ? v[1] : nullptr}; };
  Units([&](Value* unit) {
    if (!in_register) {
      Guards tail;
      int count = static_cast<int>(lanes);
      if (inner > 1) {
        if (lanes > 0) {
          Value* start = b_.CreateMul(Take(unit, CeilDiv(inner, lanes)), b_.getInt64(lanes));
          if (inner >= lanes && inner % lanes != 0) {
            start = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, start, b_.getInt64(inner - lanes));
          }
          body_.Count({&inner_var, 1}, start, count);
          if (inner < lanes) tail.push_back(body_.TailGuard({&inner_var, 1}));
        } else {
          body_.Count({&inner_var, 1}, Take(unit, inner));
        }
      }
      body_.Count({&outer_var, 1}, unit);
      Val start = body_.InitialValues(*op, false)[0];
      std::vector<Value*> carried = flat(e_.Splat(start, inner > 1 ? count : 0));
      body_.Loop(b_.getInt64(0), b_.getInt64(length), 1, carried, [&](Value* iv, std::vector<Value*>& now) {
        body_.Count({&step, 1}, iv);
        Val acc = body_.Combine(*op, {unflat(now)}, {body_.Eval(op->operand(0), index, tail)}, false,
                                body_.ActiveIn(*op->called(0), tail))[0];
        acc = e_.Splat(acc, inner > 1 ? count : 0);
        body_.Store(out, address, IsNarrowFloat(type) ? e_.Round(type, acc.v) : acc, tail);
        now = flat(acc);
      });
      return;
    }
    body_.Count({&outer_var, 1}, unit);
    Val identity;
    Opcode combine = *body_.CombinerOf(*op).op;
    if (!e_.Identity(combine, type, &identity)) e_.Fail(absl::InternalError("a scan without identity"));
    int count = static_cast<int>(lanes);
    std::vector<Value*> carried = {body_.InitialValues(*op, false)[0].v};
    body_.Loop(b_.getInt64(0), b_.getInt64(RoundUp(length, lanes)), lanes, carried,
               [&](Value* iv, std::vector<Value*>& now) {
                 body_.Count({&step, 1}, iv, count);
                 Guards tail;
                 if (length % lanes != 0) tail.push_back(body_.TailGuard({&step, 1}));
                 Val x = e_.Splat(body_.Eval(op->operand(0), index, tail), count);
                 Value* fill = e_.Splat(identity.v, count);
                 Value* v = x.v;
                 for (int shift = 1; shift < count; shift *= 2) {
                   std::vector<int> pick(count);
                   for (int i = 0; i < count; ++i) pick[i] = i < shift ? count + i : i - shift;
                   v = e_.Binary(combine, type, {b_.CreateShuffleVector(v, fill, pick)}, {v}, false).v;
                 }
                 v = e_.Binary(combine, type, {e_.Splat(now[0], count)}, {v}, false).v;
                 now[0] = b_.CreateExtractElement(v, count - 1);
                 body_.Store(out, address, IsNarrowFloat(type) ? e_.Round(type, v) : Val{v}, tail);
               });
  });
}

}  // namespace backplane::engine::codegen
