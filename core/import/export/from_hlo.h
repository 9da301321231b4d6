// Converts an HLO module to the op tree that both StableHLO writers take (core/import/stablehlo/source.h).
#ifndef BACKPLANE_CORE_IMPORT_EXPORT_FROM_HLO_H_
#define BACKPLANE_CORE_IMPORT_EXPORT_FROM_HLO_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/import/stablehlo/source.h"
#include "core/import/stablehlo/source_build.h"
#include "core/ir/module.h"

namespace backplane {

// The tree and the objects to which its strings point. The HLO module must outlive it, because large constants are not
// copied.
struct ExportedSource {
  stablehlo::SourceModule module;
  std::vector<std::unique_ptr<stablehlo::SourceModule>> parsed;  // attributes that HLO holds as text
  std::vector<std::unique_ptr<Module>> expanded;                 // expansions of operations, whose constants are shared
};
// Converts a module. `portable_version` is major * 1000 + minor of the VHLO version in which the tree will be written,
// or -1 for text.
absl::StatusOr<std::unique_ptr<ExportedSource>> ConvertHloToSource(const Module& module, int portable_version);

namespace from_hlo {

using stablehlo::SourceAttr;
using stablehlo::SourceBlock;
using stablehlo::SourceNamedAttr;
using stablehlo::SourceOp;
using stablehlo::SourceRegion;
using stablehlo::SourceType;
using stablehlo::SourceValue;
using Values = std::vector<const SourceValue*>;
using NamedAttrs = std::vector<SourceNamedAttr>;

// The export of one HLO value: one StableHLO value, or the elements of a tuple, or (for contexts of asynchronous
// starts) nothing.
struct Bundle {
  const SourceValue* value = nullptr;
  bool is_tuple = false;
  std::vector<Bundle> elements;

  static Bundle Of(const SourceValue* v) { return {v, false, {}}; }
  static Bundle Tuple(std::vector<Bundle> elements) { return {nullptr, true, std::move(elements)}; }
};

// A block under construction, and the exported values of the instructions of one computation.
struct Frame {
  std::vector<SourceOp*>* ops = nullptr;
  absl::flat_hash_map<const Instruction*, Bundle> values;
};

class Exporter {
 public:
  Exporter(const Module& module, int portable_version, ExportedSource* out)
      : hlo_(module),
        portable_version_(portable_version),
        out_(*out),
        source_(out->module),
        arena_(out->module.arena()) {}
  absl::Status Run();

 private:
  // from_hlo.cc
  absl::Status ExportEntry();
  // Returns the symbol of the function for a computation. The first call for a computation exports it.
  absl::StatusOr<absl::string_view> GetFunctionSymbol(const Computation& computation);
  absl::Status ExportModuleAttributes();
  NamedAttrs ArgumentAttributes(int64_t i, bool unpack_results) const;
  NamedAttrs ResultAttributes(int64_t i, bool unpack_results) const;
  SourceOp* AddFunction(absl::string_view name, bool open, const std::vector<const SourceType*>& arguments,
                        const std::vector<const SourceType*>& results,
                        std::vector<const SourceAttr*> argument_attributes,
                        std::vector<const SourceAttr*> result_attributes, SourceBlock* block,
                        const std::vector<SourceOp*>& ops);
  absl::string_view UniqueSymbol(absl::string_view wished);
  absl::StatusOr<Bundle> ExportComputation(const Computation& computation, std::vector<SourceOp*>* ops,
                                           const std::vector<Bundle>& parameters);
  absl::Status ExportInstruction(Frame& frame, const Instruction& instruction);
  absl::StatusOr<Bundle> Dispatch(Frame& frame, const Instruction& instruction);

  // from_hlo_build.cc: types, attributes, values
  const SourceType* ElementType(PrimitiveType type);  // null when StableHLO has no such type
  absl::StatusOr<const SourceType*> ExportType(const Shape& shape);
  absl::Status LeafTypes(const Shape& shape, std::vector<const SourceType*>* types);
  const SourceType* GetTensorType(absl::Span<const int64_t> dims, const SourceType* element);
  const SourceAttr* String(absl::string_view text);  // copied
  const SourceAttr* Int(int64_t v) { return stablehlo::MakeInteger(arena_, v); }
  const SourceAttr* Int32(int64_t v) { return stablehlo::MakeInteger(arena_, v, stablehlo::ElementKind::kI32); }
  const SourceAttr* List(const Ints& values) { return stablehlo::MakeI64List(arena_, values); }
  const SourceAttr* Bool(bool v) { return stablehlo::MakeBool(arena_, v); }
  const SourceAttr* Enum(const char* name) { return stablehlo::MakeEnum(arena_, name); }
  const SourceAttr* Matrix(const Ints& flat, int64_t rows, int64_t columns);
  const SourceAttr* Strings(const StringMap& map);
  // `lasting`: the literal is the module's, its bytes need not be copied.
  absl::StatusOr<const SourceAttr*> Dense(const Literal& literal, bool lasting);
  absl::StatusOr<const SourceAttr*> Ffi(const FfiDictionary& dictionary);
  absl::StatusOr<const SourceAttr*> ParseText(absl::string_view attribute);  // MLIR's spelling of one attribute
  absl::StatusOr<const SourceValue*> Constant(Frame& frame, const Literal& literal);
  absl::StatusOr<const SourceValue*> EmitFilled(Frame& frame, const SourceType* type, PrimitiveType element,
                                                double value);

  absl::StatusOr<SourceOp*> Emit(Frame& frame, absl::string_view name, const Values& operands, NamedAttrs attributes,
                                 const std::vector<const SourceType*>& results, std::vector<SourceRegion> regions = {});
  // Like Emit, with one result.
  absl::StatusOr<const SourceValue*> EmitOne(Frame& frame, absl::string_view name, const Values& operands,
                                             NamedAttrs attributes, const SourceType* result);
  // Emits the op of an instruction with its annotations. The results are the leaves of the instruction's shape.
  absl::StatusOr<Bundle> EmitFor(Frame& frame, const Instruction& instruction, absl::string_view name,
                                 const Values& operands, NamedAttrs attributes, std::vector<SourceRegion> regions = {});
  absl::Status AddAnnotations(const Instruction& instruction, NamedAttrs* attributes);
  SourceBlock* NewBlock(const std::vector<const SourceType*>& arguments);
  SourceRegion CloseRegion(SourceBlock* block, const std::vector<SourceOp*>& ops);
  void Return(std::vector<SourceOp*>* ops, absl::string_view name, const Values& values);

  const Bundle& Get(Frame& frame, const Instruction* instruction) { return frame.values.at(instruction); }
  absl::StatusOr<const SourceValue*> GetValue(Frame& frame, const Instruction* instruction);
  absl::StatusOr<Values> Operands(Frame& frame, const Instruction& instruction);
  absl::StatusOr<const SourceValue*> Materialize(Frame& frame, const Bundle& bundle);
  absl::StatusOr<Bundle> Element(Frame& frame, const Bundle& bundle, int64_t index);
  absl::Status Flatten(Frame& frame, const Bundle& bundle, const Shape& shape, Values* leaves);
  Bundle Unflatten(const Shape& shape, absl::Span<const SourceValue> leaves, size_t* next);
  // The region of a computation that takes and returns leaves.
  absl::StatusOr<SourceRegion> Region(const Computation& computation);

  // from_hlo_ops.cc
  absl::StatusOr<Bundle> ExportPlain(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportBitcast(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportRng(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportDynamicReshape(Frame&, const Instruction&);

  // from_hlo_control.cc
  absl::StatusOr<Bundle> ExportWhile(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportConditional(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportCall(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportCustomCall(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportAsyncStart(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportTransfer(Frame&, const Instruction&);

  // from_hlo_collectives.cc
  // Returns the attributes that a collective has as the synchronous operation `opcode`, with its replica groups.
  absl::StatusOr<NamedAttrs> GroupAttributes(Opcode opcode, const Instruction&, const Attributes& given);
  absl::StatusOr<Bundle> ExportCollective(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportAllToAll(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportRaggedAllToAll(Frame&, const Instruction&);

  // from_hlo_expand.cc
  absl::StatusOr<Bundle> ExportComposite(Frame&, const Instruction&);
  absl::StatusOr<absl::string_view> Decomposition(const Instruction&);
  absl::StatusOr<const SourceValue*> ExpandErf(Frame&, const SourceValue* x, PrimitiveType type);
  absl::StatusOr<const SourceValue*> ExpandCosh(Frame&, const SourceValue* x, PrimitiveType type);
  absl::StatusOr<Values> ExpandTopK(Frame&, const SourceValue* x, const Instruction&);
  absl::StatusOr<const SourceValue*> ExpandScaledDot(Frame&, const Values& x, const Instruction&);

  // from_hlo_chlo.cc
  absl::StatusOr<absl::string_view> ExportExpansion(const Instruction&, absl::string_view name);
  absl::StatusOr<Bundle> PortableForm(Frame&, const Instruction&, const Values& operands, absl::string_view name,
                                      NamedAttrs attributes, std::vector<SourceRegion> regions);
  absl::StatusOr<Bundle> ExportRaggedDot(Frame&, const Instruction&);
  absl::StatusOr<Bundle> ExportScan(Frame&, const Instruction&);

  const Module& hlo_;
  const int portable_version_;
  ExportedSource& out_;
  stablehlo::SourceModule& source_;
  stablehlo::SourceArena& arena_;
  std::vector<SourceOp*> functions_;
  absl::flat_hash_map<const Computation*, absl::string_view> symbols_;
  absl::flat_hash_map<std::string, int> symbol_names_;
  absl::flat_hash_map<std::string, absl::string_view> decompositions_;
  std::vector<stablehlo::SourceLocation> locations_;
  absl::flat_hash_map<std::string, stablehlo::LocationId> location_ids_;
  absl::flat_hash_map<int, const SourceType*> complex_types_;
  stablehlo::LocationId location_ = 0;  // of the instruction being exported
  uint32_t next_value_ = 0;
  int64_t op_count_ = 0;
  int depth_ = 0;
};

// The largest number of exported operations. A computation that several regions use is written once per use; a module
// that would become larger than this is refused.
inline constexpr int64_t kMaxExportedOps = int64_t{1} << 22;

}  // namespace from_hlo
}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_EXPORT_FROM_HLO_H_
