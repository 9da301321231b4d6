#include "plugins/hip/isa/machine/lanes.h"

#include <algorithm>

#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {
namespace {

// What an operation computed, before it is written.
struct Computed {
  Row row;
  uint64_t mask = 0;  // lanes that are written
  uint64_t mask_out = 0;
};

struct Sources {
  Row rows[4];
};

// Reads the sources and runs the operation into `result`, which may be a source's register.
void Compute(Wave& wave, const Instruction& i, Sources& buffers, void* result, uint64_t& mask, uint64_t& mask_out) {
  const Operation& op = *i.operation;
  LaneContext c;
  c.lanes = wave.lanes;
  c.result = result;
  int n = 0;
  for (int s = 0; s < op.sources; ++s) {
    const Type type = i.SourceType(s);
    const Operand& o = i.Source(s);
    if (type == Type::kMask) {
      c.mask_in = wave.lanes == 32 ? wave.Scalar32(o) : wave.Scalar64(o);
      continue;
    }
    c.sources[n] = ReadRow(wave, o, type, buffers.rows[n]);
    if (s == 0 && i.modifiers.shuffle.kind != LaneShuffle::Kind::kNone) {
      mask &= ShuffleRow(wave, i.modifiers.shuffle, type, c.sources[0], buffers.rows[0]);
      c.sources[0] = &buffers.rows[0];
    }
    ++n;
  }
  if (op.accumulates) {
    Operand before = i.Result();
    if (Is16Bit(op.types[0]) && i.modifiers.destination == Select::kWord1) before.select = Select::kWord1;
    c.sources[n] = ReadRow(wave, before, op.types[0], buffers.rows[n]);
  }
  if (op.reads_vcc) c.mask_in = wave.vcc();
  op.lanes(c);
  mask_out = c.mask_out & mask;
}

void WriteMask(Wave& wave, const Instruction& i, uint64_t mask_out) {
  const Operation& op = *i.operation;
  for (int r = 0; r < op.results; ++r) {
    if (op.types[r] == Type::kMask) wave.SetMask(i.Result(r).index, mask_out);
  }
}

}  // namespace

void ExecuteLanes(Wave& wave, const Instruction& i) {
  const Operation& op = *i.operation;
  Sources buffers;
  uint64_t mask = wave.exec(), mask_out = 0;
  const Type type = op.types[0];
  const bool flushes = !(wave.mode.keep_f32_results && wave.mode.keep_f64_results);
  const bool words = type == Type::k32 || type == Type::kF32;
  if (words && i.plain && mask == wave.LaneMask() && !flushes) {
    Compute(wave, i, buffers, wave.vectors[i.Result().index], mask, mask_out);
  } else {
    Row row;
    Compute(wave, i, buffers, &row, mask, mask_out);
    if (type != Type::kMask) WriteRow(wave, i, i.Result(), type, row, mask);
  }
  if (op.results != 1 || type == Type::kMask) WriteMask(wave, i, mask_out);
}

void ExecuteCompareToExec(Wave& wave, const Instruction& i) {
  Sources buffers;
  uint64_t mask = wave.exec(), mask_out = 0;
  Compute(wave, i, buffers, nullptr, mask, mask_out);
  WriteMask(wave, i, mask_out);
  wave.SetMask(kExecLow, mask_out);
}

void ExecutePair(Wave& wave, const Instruction& i) {
  Row rows[2];
  uint64_t masks[2] = {wave.exec(), wave.exec()}, unused = 0;
  Sources buffers;
  for (int h = 0; h < 2; ++h) Compute(wave, i.pair[h], buffers, &rows[h], masks[h], unused);
  for (int h = 0; h < 2; ++h) {
    const Instruction& half = i.pair[h];
    WriteRow(wave, half, half.Result(), half.operation->types[0], rows[h], masks[h]);
  }
}

}  // namespace backplane::hip::isa
