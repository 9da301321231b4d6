#include "plugins/hip/isa/code/parse.h"

#include <bit>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "plugins/hip/isa/code/operand_text.h"
#include "plugins/hip/isa/machine/lanes.h"
#include "plugins/hip/isa/machine/number_formats.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

absl::Status UnknownPart(const Instruction& i, absl::string_view what, absl::string_view part) {
  return absl::UnimplementedError(absl::StrCat(what, " '", part, "' of '", i.text, "'"));
}

// Splits at commas and blanks outside of brackets: "v0, s[0:1] offset:4" has the parts v0, s[0:1] and offset:4.
std::vector<absl::string_view> SplitParts(absl::string_view text) {
  std::vector<absl::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ' ';
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if ((c != ',' && c != ' ') || (depth > 0 && at < text.size())) continue;
    if (at > begin) parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  return parts;
}

// "[1,0,1]" as bits.
std::optional<uint8_t> BitList(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) return std::nullopt;
  uint8_t bits = 0;
  int n = 0;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    if (item == "1") bits = static_cast<uint8_t>(bits | 1u << n);
    ++n;
  }
  return bits;
}

std::optional<Select> SelectOf(absl::string_view name) {
  static constexpr std::pair<absl::string_view, Select> kNames[] = {
      {"DWORD", Select::kDword},  {"WORD_0", Select::kWord0}, {"WORD_1", Select::kWord1}, {"BYTE_0", Select::kByte0},
      {"BYTE_1", Select::kByte1}, {"BYTE_2", Select::kByte2}, {"BYTE_3", Select::kByte3}};
  for (const auto& [n, select] : kNames) {
    if (n == name) return select;
  }
  return std::nullopt;
}

// The second word of a DPP instruction: the fields in front are a source register and modifiers, which the text has
// too.
void ReadDpp(Instruction& i, bool dpp8, LaneShuffle& shuffle) {
  const uint32_t word = i.words[i.bytes / 4 - 1];
  if (dpp8) {
    shuffle.kind = LaneShuffle::Kind::kDpp8;
    shuffle.selects = word >> 8;
    return;
  }
  shuffle.kind = LaneShuffle::Kind::kDpp16;
  shuffle.control = word >> 8 & 0x1ff;
  shuffle.fetch_inactive = (word >> 18 & 1) != 0;
  shuffle.bound_control = (word >> 19 & 1) != 0;
  shuffle.bank_mask = word >> 24 & 15;
  shuffle.row_mask = word >> 28 & 15;
}

struct ParsedModifiers {
  bool has_op_sel = false, has_op_sel_hi = false;
  std::optional<Select> source_select[2];
};

// Returns whether the part is a modifier that has been read.
bool ReadModifier(Instruction& i, absl::string_view part, ParsedModifiers& parsed) {
  Modifiers& m = i.modifiers;
  // The cache policies have no meaning here, except that one says that an atomic returns.
  static constexpr absl::string_view kIgnored[] = {"slc", "dlc", "nt", "sc1", "scc", "nv"};
  for (absl::string_view ignored : kIgnored) {
    if (part == ignored && (part != "scc" || i.operand_count > 0)) return true;
  }
  if (part == "glc" || part == "sc0") return m.returns = true;
  if (part == "clamp") return m.clamp = true;
  if (part == "gds") return m.gds = true;
  if (part == "lds") return m.lds = true;
  const std::pair<absl::string_view, absl::string_view> named = absl::StrSplit(part, absl::MaxSplits(':', 1));
  const auto& [name, value] = named;
  int64_t number = 0;
  const bool has_number =
      absl::SimpleAtoi(value, &number) || (absl::StartsWith(value, "0x") && absl::SimpleHexAtoi(value, &number));
  if (name == "offset") {
    m.offset = has_number ? static_cast<int32_t>(number) : static_cast<int32_t>(i.words[0] & 0xffff);
    return has_number || absl::StartsWith(value, "swizzle(");
  }
  if (name == "offset0" && has_number) return m.offset0 = static_cast<int32_t>(number), true;
  if (name == "offset1" && has_number) return m.offset1 = static_cast<int32_t>(number), true;
  if (name == "mul" && (value == "2" || value == "4")) return m.output_scale = value == "2" ? 1 : 2, true;
  if (name == "div" && value == "2") return m.output_scale = 3, true;
  if (name == "cbsz" && has_number) return m.cbsz = static_cast<uint8_t>(number), true;
  if (name == "abid" && has_number) return m.abid = static_cast<uint8_t>(number), true;
  if (name == "blgp" && has_number) return m.blgp = static_cast<uint8_t>(number), true;
  static constexpr absl::string_view kDppNames[] = {
      "quad_perm", "row_shl",    "row_shr",        "row_ror", "row_bcast", "row_newbcast", "row_share", "row_xmask",
      "row_mask",  "bank_mask",  "bound_ctrl",     "fi",      "wave_shl",  "wave_shr",     "wave_rol",  "wave_ror",
      "dpp8",      "row_mirror", "row_half_mirror"};
  for (absl::string_view dpp : kDppNames) {
    if (name != dpp) continue;
    if (m.shuffle.kind == LaneShuffle::Kind::kNone) ReadDpp(i, absl::StrContains(i.text, "dpp8:"), m.shuffle);
    if (dpp == "fi") m.shuffle.fetch_inactive = true;
    return true;
  }
  if (name == "dst_unused") {
    m.unused = value == "UNUSED_PRESERVE" ? Modifiers::Unused::kPreserve
               : value == "UNUSED_SEXT"   ? Modifiers::Unused::kSignExtend
                                          : Modifiers::Unused::kPad;
    return true;
  }
  if (name == "dst_sel" || name == "src0_sel" || name == "src1_sel") {
    const std::optional<Select> select = SelectOf(value);
    if (!select) return false;
    if (name == "dst_sel") {
      m.destination = *select;
      m.has_destination_select = true;
    } else {
      parsed.source_select[name[3] - '0'] = *select;
    }
    return true;
  }
  const std::optional<uint8_t> bits = BitList(value);
  if (!bits) return false;
  if (name == "op_sel") return m.op_sel = *bits, parsed.has_op_sel = true;
  if (name == "op_sel_hi") return m.op_sel_hi = *bits, parsed.has_op_sel_hi = true;
  if (name == "neg_lo") return m.neg_lo = *bits, true;
  if (name == "neg_hi") return m.neg_hi = *bits, true;
  if (name == "neg") return m.blgp = *bits, true;  // products of f64: the field is the signs
  return false;
}

absl::string_view StripEncoding(absl::string_view mnemonic) {
  for (absl::string_view suffix : {"_e64_dpp", "_dpp", "_e32", "_e64", "_sdwa"}) {
    if (absl::EndsWith(mnemonic, suffix)) return mnemonic.substr(0, mnemonic.size() - suffix.size());
  }
  return mnemonic;
}

// 16-bit sources and results of VOP3 in the upper halves of registers. Packed operations read the bits themselves.
void ApplyOpSel(Instruction& i) {
  const Operation& op = *i.operation;
  if (op.packed) return;
  const uint8_t bits = i.modifiers.op_sel;
  for (int s = 0; s < op.sources; ++s) {
    if ((bits >> s & 1) != 0) i.operands[op.results + s].select = Select::kWord1;
  }
  // The bit for the result stands behind those of the sources that the encoding has.
  if (op.results > 0 && Is16Bit(op.types[0]) && (bits >> op.sources & 1) != 0) {
    i.modifiers.has_destination_select = true;
    i.modifiers.destination = Select::kWord1;
    i.modifiers.unused = Modifiers::Unused::kPreserve;
  }
}

void BindImmediate(Operand& o, Type type, const Operation& op, uint16_t simm16) {
  if (op.short_immediate == ShortImmediate::kSigned) {
    o.value = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int16_t>(simm16)));
  } else if (op.short_immediate == ShortImmediate::kUnsigned) {
    o.value = simm16;
  } else {
    o.value = EncodeImmediate(o, type);
  }
}

void AddTouched(Instruction& i, const Operand& o, bool is_result) {
  RegisterRange r;
  r.count = o.width;
  r.is_result = is_result;
  if (o.kind == Operand::Kind::kVector) {
    r.first = o.index;
  } else if (o.kind == Operand::Kind::kScalar && o.index != kNull) {
    r.first = static_cast<uint16_t>(kVectorRegisters + o.index);
  } else {
    return;
  }
  i.touched.push_back(r);
}

absl::Status ParsePair(Machine machine, Instruction& i) {
  const std::vector<std::string> halves = absl::StrSplit(i.text, " :: ");
  for (const std::string& text : halves) {
    Instruction half;
    half.text = text;
    half.bytes = i.bytes;
    if (absl::Status s = ParseInstruction(machine, half); !s.ok()) return s;
    i.touched.insert(i.touched.end(), half.touched.begin(), half.touched.end());
    i.pair.push_back(std::move(half));
  }
  i.operation = i.pair[0].operation;
  i.execute = ExecutePair;
  i.mnemonic = absl::StrCat(i.pair[0].mnemonic, "+", i.pair[1].mnemonic);
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseInstruction(Machine machine, Instruction& i) {
  if (absl::StrContains(i.text, " :: ")) return ParsePair(machine, i);
  const std::pair<absl::string_view, absl::string_view> split =
      absl::StrSplit(absl::string_view(i.text), absl::MaxSplits(' ', 1));
  const absl::string_view mnemonic = StripEncoding(split.first);
  i.mnemonic = std::string(mnemonic);
  const std::vector<absl::string_view> parts = SplitParts(split.second);
  ParsedModifiers parsed;
  std::vector<absl::string_view> operands;
  i.simm16 = static_cast<uint16_t>(i.words[0]);

  const Operation* op = FindOperation(machine, mnemonic);
  if (op == nullptr) return absl::UnimplementedError(absl::StrCat("'", i.text, "' is not known"));
  for (absl::string_view part : parts) {
    std::optional<Operand> operand = ParseOperand(part);
    if (operand.has_value()) {
      if (i.operand_count == std::size(i.operands)) return UnknownPart(i, "the operand", part);
      i.operands[i.operand_count++] = *operand;
    } else if (op->uses_simm16) {
      continue;
    } else if (!ReadModifier(i, part, parsed)) {
      return UnknownPart(i, "the part", part);
    }
  }
  Modifiers& m = i.modifiers;
  if (m.clamp && (op->types[0] == Type::kNone || !IsFloat(op->types[0])) && !op->handles_clamp) {
    op = FindOperation(machine, absl::StrCat(mnemonic, " clamp"));
    if (op == nullptr) return UnknownPart(i, "the modifier", "clamp");
    m.clamp = false;
  }
  i.operation = op;
  i.execute = op->execute;
  if (op->packed && !parsed.has_op_sel_hi) m.op_sel_hi = op->mixed ? 0 : 7;
  if (!op->uses_simm16 && !op->variable_operands && i.operand_count != op->results + op->sources) {
    return absl::UnimplementedError(
        absl::StrCat("'", i.text, "' has ", i.operand_count, " operands instead of ", op->results + op->sources));
  }
  ApplyOpSel(i);
  for (int s = 0; s < 2; ++s) {
    if (!parsed.source_select[s]) continue;
    Operand& o = i.operands[op->results + s];
    o.select = *parsed.source_select[s];
    if (o.select == Select::kDword && o.sign_extend) o.sign_extend = false;
  }
  for (int n = 0; n < i.operand_count; ++n) {
    Operand& o = i.operands[n];
    const Type type = n < op->results + op->sources ? op->types[n] : Type::k32;
    if (o.kind == Operand::Kind::kImmediate) BindImmediate(o, type, *op, i.simm16);
    AddTouched(i, o, n < op->results);
  }
  if (op->reads_vcc) {
    const uint8_t words = machine == Machine::kGfx1100 ? 1 : 2;
    i.touched.push_back({static_cast<uint16_t>(kVectorRegisters + kVccLow), words, false});
  }
  i.plain = m.shuffle.kind == LaneShuffle::Kind::kNone && !m.clamp && m.output_scale == 0 && !m.has_destination_select;
  return absl::OkStatus();
}

}  // namespace backplane::hip::isa
