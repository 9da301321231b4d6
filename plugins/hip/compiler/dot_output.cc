#include "plugins/hip/compiler/dot_output.h"

#include "plugins/hip/compiler/convolution_problem.h"

namespace backplane::hip {

using codegen::Index;
using codegen::VarId;
using compiler::Affine;
using llvm::Value;

DotOutput::DotOutput(KernelFrame& frame, const DotTiles& tiles, const DotProblem& problem, const DotSite& site)
    : f_(frame), tiles_(tiles), p_(problem), site_(site) {
  const bool is_convolution = site_.dot->Is(Opcode::kConvolution);
  if (is_convolution) IndexConvolution();
  if (site_.body == nullptr) {
    row_ = f_.vars.Loop(p_.m), column_ = f_.vars.Loop(p_.n);
    return;
  }
  size_t next = 0;
  for (const Instruction* p : site_.body->parameters())
    f_.body.SetArray(p, 0, {f_.array(next++), p->shape().element_type()});
  for (KernelResult& r : ListKernelResults(*site_.body)) {
    const PrimitiveType type = r.shape.element_type();
    results_.push_back({std::move(r), {f_.array(next++), type}});
  }
  if (is_convolution) return;
  // The dimensions of a dot: those of the batch, of the rows, of the columns.
  const Shape& shape = site_.dot->shape();
  const int64_t batch = static_cast<int64_t>(site_.dot->dot_dims().lhs_batch.size());
  const int64_t row_dims = site_.dot->operand(0)->shape().rank() - batch -
                           static_cast<int64_t>(site_.dot->dot_dims().lhs_contracting.size());
  Index own;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (d < batch) {
      own.push_back(Affine::Var(tiles_.batch()[static_cast<size_t>(d)]));
      continue;
    }
    std::vector<VarId>& dims = d < batch + row_dims ? rows_ : columns_;
    dims.push_back(f_.vars.Loop(shape.dimensions(d)));
    own.push_back(Affine::Var(dims.back()));
  }
  for (const int64_t d : site_.permutation) index_.push_back(own[static_cast<size_t>(d)]);
}

void DotOutput::IndexConvolution() {
  const Instruction& conv = *site_.dot;
  index_.resize(static_cast<size_t>(conv.shape().rank()));
  for (const int64_t d : RowDimensions(conv)) {
    rows_.push_back(f_.vars.Loop(conv.shape().dimensions(d)));
    index_[static_cast<size_t>(d)] = Affine::Var(rows_.back());
  }
  columns_.push_back(f_.vars.Loop(p_.n));
  Affine& feature = index_[static_cast<size_t>(conv.conv_dims().output_feature)];
  feature = Affine::Var(columns_.back());
  const size_t groups = p_.parts > 1 ? 1 : 0;  // their dimension of the batch, if there are groups
  if (p_.batch.size() > groups) feature.Add(Affine::Var(tiles_.batch()[groups]), p_.n);
}

void DotOutput::Store(Value* row, Value* column, int lanes, const Val& sums) {
  f_.scopes.Block([&] {
    Val value = f_.elements.Convert(sums, p_.sum_type(), p_.out_type);
    if (site_.body == nullptr && !rows_.empty()) {
      f_.scopes.Bind(rows_, row);
      f_.scopes.Bind(columns_, column, lanes);
      const Affine part = tiles_.BatchOffset(&DotProblem::BatchDim::out_stride);
      f_.memory.Store({f_.array(2), p_.out_type}, Linearize(index_, site_.dot->shape().dimensions()).Plus(part), value,
                      {});
      return;
    }
    if (site_.body == nullptr) {
      f_.scopes.Bind({&row_, 1}, row);
      f_.scopes.Bind({&column_, 1}, column, lanes);
      const Affine address = tiles_.BatchOffset(&DotProblem::BatchDim::out_stride)
                                 .Plus(Affine::Var(row_), p_.out_m_stride)
                                 .Plus(Affine::Var(column_), p_.out_n_stride);
      f_.memory.Store({f_.array(2), p_.out_type}, address, value, {});
      return;
    }
    if (!rows_.empty()) f_.scopes.Bind(rows_, row);
    if (!columns_.empty()) f_.scopes.Bind(columns_, column, lanes);
    f_.body.SetValue(site_.value, 0, value);
    Vals values;
    for (const Result& r : results_) values.push_back(f_.body.Eval(r.what.instruction, index_, {}, r.what.element));
    for (size_t k = 0; k < results_.size(); ++k) {
      f_.memory.Store(results_[k].array, Linearize(index_, results_[k].what.shape.dimensions()), values[k], {});
    }
  });
}

}  // namespace backplane::hip
