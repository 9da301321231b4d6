// The parser behind ParseStablehloText, declared for its own source files: text_types.cc, text_attributes.cc,
// text_constants.cc, text_ops.cc (modules, functions, generic form), text_short_forms.cc, text_shardy.cc.
//
// status_ keeps the first error, which also makes kEnd the current token, so that every loop ends. Functions then
// return null or false.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_INTERNAL_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_INTERNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/import/stablehlo/source.h"
#include "core/import/stablehlo/source_build.h"
#include "core/import/stablehlo/text_lexer.h"

namespace backplane::stablehlo {

// Returns the bits of a float literal in its format.
uint64_t EncodeFloat(double value, ElementKind kind);

// Returns the format of the short form of a StableHLO op (text_short_forms.cc describes it), or null if the op has
// none.
const char* ShortFormat(absl::string_view op_name);

class TextParser {
 public:
  TextParser(absl::string_view text, SourceModule* module);
  absl::Status Parse();

 private:
  enum class Parent { kModule, kFunction, kOther };

  struct OperandUse {
    absl::string_view name;
    uint32_t index = 0;
    size_t position = 0;
  };
  // An op while it is parsed.
  struct OpState {
    size_t position = 0;
    std::string name;
    std::vector<const SourceValue*> operands;
    std::vector<const SourceType*> result_types;
    std::vector<SourceNamedAttr> attributes;
    std::vector<SourceRegion> regions;
    LocationId location = 0;
  };
  struct Argument {
    absl::string_view name;
    const SourceType* type = nullptr;
    LocationId location = 0;
  };
  struct Group {
    const SourceValue* first = nullptr;
    uint32_t count = 0;
  };

  // Tokens.
  bool ok() const { return status_.ok(); }
  void Advance();
  void Fail(absl::string_view message) { FailAt(token_.position, message); }
  void FailAt(size_t position, absl::string_view message, absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  bool At(char c) const { return token_.Is(c); }
  bool AtWord(absl::string_view word) const { return token_.kind == TokenKind::kBareId && token_.text == word; }
  bool Take(char c);  // consumes when there
  bool TakeWord(absl::string_view word);
  bool TakeArrow();
  bool Expect(char c);  // consumes or fails
  bool ExpectWord(absl::string_view word);
  bool ExpectAssign(absl::string_view word);  // word `=`
  std::string FormatToken() const;
  void Jump(size_t position);  // goes on lexing there
  // Takes a bracketed group that starts at the current token. Returns its raw text, brackets included.
  absl::string_view TakeBalanced();

  // Numbers and strings.
  bool ParseInteger(int64_t* value);
  bool ParseIntegerList(std::vector<int64_t>* values);  // [1, -2]
  absl::string_view ParseStringToken();                 // unescaped, in the arena
  absl::string_view ParseSymbol();                      // @f or @"f"
  absl::string_view ParseKeyword();

  // Types (text_types.cc).
  const SourceType* ParseType();
  const SourceType* ParseTypeInner();
  const SourceType* ParseTensor(TypeKind kind);
  const SourceType* ParseFunctionType();
  const SourceType* ParseDialectType();
  const SourceType* ParseQuantized();
  bool ParseTypeList(char close, std::vector<const SourceType*>* types);  // up to and with the closing bracket
  bool ParseBounds(std::vector<int64_t>* bounds);
  const SourceType* CheckType(SourceType* type);  // fails if it is too large; null after an error
  const SourceType* RealPart(const SourceType* complex_tensor);

  // Attributes (text_attributes.cc).
  const SourceAttr* ParseAttribute();
  const SourceAttr* ParseAttributeInner();
  const SourceAttr* ParseNumber();
  const SourceAttr* ParseArrayLiteral();
  const SourceAttr* ParseDenseArray();
  const SourceAttr* ParseHashAttribute();
  const SourceAttr* ParseStablehloAttribute(absl::string_view mnemonic);
  const SourceAttr* ParseStruct();  // <key = value, ...>
  const SourceAttr* ParseStructValue(absl::string_view key);
  const SourceAttr* ParseConvolutionDims();  // [b, 0, f]x[0, i, o]->[b, 0, f]
  bool ParseConvolutionSide(absl::string_view letters, int64_t named[2], std::vector<int64_t>* spatial);
  const SourceAttr* ParseBoundsAttribute();
  const SourceAttr* MakeOpaque(absl::string_view text);
  bool ParseDictionary(std::vector<SourceNamedAttr>* entries);  // { ... }
  bool ParseOptionalDictionary(std::vector<SourceNamedAttr>* entries);
  const SourceAttr* ParseEnumWord(absl::string_view attribute);
  absl::string_view ShardyBody(absl::string_view raw);  // white space brought into MLIR's form

  // Constants (text_constants.cc).
  const SourceAttr* ParseDense();
  const SourceAttr* ParseDenseResource();
  const SourceAttr* DenseFromHex(const SourceType* type, absl::string_view hex, bool resource, size_t position);
  const SourceAttr* DenseFromLiteral(const SourceType* type, absl::string_view literal, size_t position);

  // Locations (text_locations.cc).
  LocationId ParseOptionalLocation();

  // Ops (text_ops.cc).
  void ScanAliases();
  void ScanResources();
  SourceOp* ParseOp(Parent parent);
  bool ParseGenericOp(OpState* op);
  bool ParseShortOp(Parent parent, OpState* op);
  bool ParseModule(OpState* op);
  bool ParseFunction(OpState* op);
  bool ParseArguments(std::vector<Argument>* arguments, std::vector<const SourceAttr*>* dictionaries, bool* named);
  bool ParseRegion(Parent inside, const std::vector<Argument>& arguments, SourceRegion* region);
  bool ParseOperand(OperandUse* use);
  bool ParseOperands(std::vector<OperandUse>* uses);                          // %a, %b; maybe none
  const SourceValue* Resolve(const OperandUse& use, const SourceType* type);  // type may be null: not checked
  bool ResolveAll(const std::vector<OperandUse>& uses, absl::Span<const SourceType* const> types, OpState* op);
  void DefineName(absl::string_view name, Group group);
  SourceOp* Finish(OpState* op, Parent parent);
  bool Normalize(OpState* op);
  SourceBlock* OpenBlock(const std::vector<Argument>& arguments, SourceRegion* region);

  // Short forms (text_short_forms.cc).
  bool ParseByFormat(const char* format, OpState* op);
  bool ParseOpTypes(absl::string_view how, const std::vector<OperandUse>& uses, OpState* op);
  bool ParseConstantOp(OpState* op);
  bool ParseConstantValue(OpState* op);
  bool ParseReduceOp(OpState* op);
  bool ParseWhileOp(OpState* op);
  bool ParseConvolutionOp(OpState* op);
  bool ParseDotOp(OpState* op);
  bool ParseCompositeOp(OpState* op);
  bool ParseReturnOp(OpState* op);
  bool ParseBarrierOp(OpState* op);
  bool ParseCallOp(OpState* op);
  bool ParseChloOp(OpState* op);
  bool ParsePrecision(OpState* op);
  bool ParseAlgorithm(OpState* op);
  bool ParseSliceRanges(OpState* op);
  bool ParseExponentMantissa(OpState* op);
  // text_shardy.cc
  bool ParseShardyOp(OpState* op);
  bool ParseManualComputation(OpState* op);

  void Add(OpState* op, absl::string_view name, const SourceAttr* value) { op->attributes.push_back({name, value}); }

  absl::string_view text_;
  SourceModule& module_;
  SourceArena& arena_;
  Lexer lexer_;
  Token token_;
  absl::Status status_;

  int type_depth_ = 0;
  int attribute_depth_ = 0;
  int region_depth_ = 0;
  uint32_t next_value_ = 0;
  bool module_seen_ = false;
  std::vector<SourceOp*> top_ops_;
  std::vector<size_t> locations_;  // LocationId - 1 -> position of the text inside loc( )

  struct Alias {
    size_t position = 0;
    bool busy = false;
    const SourceAttr* attribute = nullptr;
    const SourceType* type = nullptr;
  };
  absl::flat_hash_map<absl::string_view, Alias> aliases_;                // "#map", "!t"
  absl::flat_hash_map<absl::string_view, absl::string_view> resources_;  // key -> quoted hexadecimal text
  absl::flat_hash_map<absl::string_view, Group> names_;
  std::vector<std::pair<absl::string_view, Group>> shadowed_;  // what DefineName replaced, for leaving a region
};

// Creates a resolver of locations in `text`, which must outlive it. `aliases` maps "#loc3" to the position of its
// definition.
std::unique_ptr<LocationResolver> MakeTextLocationResolver(absl::string_view text, std::vector<size_t> locations,
                                                           absl::flat_hash_map<absl::string_view, size_t> aliases);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_TEXT_INTERNAL_H_
