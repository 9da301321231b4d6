// The class behind ConvertToHlo, declared for its own source files, one for each family of operations.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_IMPORTER_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_IMPORTER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/import/stablehlo/source.h"
#include "core/import/stablehlo/source_build.h"
#include "core/import/to_hlo/shardy_sharding.h"
#include "core/ir/builder.h"
#include "core/types/status_macros.h"

namespace backplane::to_hlo {

using stablehlo::SourceAttr;
using stablehlo::SourceBlock;
using stablehlo::SourceOp;
using stablehlo::SourceRegion;
using stablehlo::SourceType;
using stablehlo::SourceValue;

// Return the value of an attribute. Error messages name the attribute.
absl::StatusOr<int64_t> GetInt(const SourceOp& op, absl::string_view name);
absl::StatusOr<Ints> GetInts(const SourceOp& op, absl::string_view name);
absl::StatusOr<bool> GetBool(const SourceOp& op, absl::string_view name);
absl::StatusOr<absl::string_view> GetText(const SourceOp& op, absl::string_view name);  // strings and enumerations

absl::StatusOr<PrimitiveType> ConvertElementType(const SourceType* type);
// Converts tensors (bounded dimensions become dynamic ones), tokens and tuples.
absl::StatusOr<Shape> ConvertType(const SourceType* type);
// Converts a constant to a literal of all elements, also if it is a splat.
absl::StatusOr<Literal> ConvertConstant(const SourceAttr* value);
// Converts one element of a splat.
absl::StatusOr<Literal> ConvertSplat(const SourceAttr* value);
// Subtracts the bytes of the result from *budget. Returns an error instead of a result that takes more.
absl::StatusOr<FfiDictionary> ConvertFfiDictionary(const SourceAttr* dictionary, int64_t* budget);
absl::StatusOr<ReplicaGroups> ConvertReplicaGroups(const SourceAttr* dense);

// Promotes operands of a reduction. In StableHLO the body of a reduction may compute in a wider type of the same kind.
// Converts each value that is narrower than the body's parameter with the same number. Values that cannot be promoted
// stay as they are, and the operation refuses them.
absl::Status PromoteTo(Builder& b, const Computation& body, absl::Span<Value> values);

// Returns a name that HLO text can state: letters, digits, '_', '.' and '-', not first a digit, '.' or '-'. StableHLO's
// symbols may have any characters.
std::string MakeHloName(absl::string_view wished);

// A computation under construction and the values that are visible in it.
class Scope {
 public:
  Scope(Module* module, absl::string_view name, ExpansionBudget* budget) : builder(module, MakeHloName(name)) {
    builder.set_budget(budget);
  }

  Builder builder;
  OpMetadata metadata;  // of the op being imported; the builder has the same
  // Element `index` of the tuple `value`, which is created on first use; -1: the value itself.
  struct Slot {
    Value value = nullptr;
    int64_t index = -1;
  };
  absl::flat_hash_map<const SourceValue*, Slot> values;
  absl::flat_hash_map<const SourceValue*, std::vector<Value>> futures;  // the results of an asynchronous op
};

class Importer {
 public:
  explicit Importer(const stablehlo::SourceModule& source) : source_(source), expansion_budget_(source.written_bytes) {}
  absl::StatusOr<std::unique_ptr<Module>> Run();

 private:
  using Handler = absl::Status (Importer::*)(Scope&, const SourceOp&);
  static const absl::flat_hash_map<absl::string_view, Handler>& Handlers();

  // importer.cc
  absl::Status ImportModuleAttributes();
  absl::Status ImportEntry(const SourceOp& function);
  absl::Status ImportArgumentAttributes(const SourceOp& function, Scope& scope);
  absl::Status ImportResultAttributes(const SourceOp& function, const Shape& result);
  absl::StatusOr<Computation*> ImportFunction(absl::string_view name);
  // Imports the ops of a block. Returns the values that its terminator returns.
  absl::StatusOr<std::vector<Value>> ImportBlock(Scope& scope, const SourceBlock& block);
  absl::Status ImportOp(Scope& scope, const SourceOp& op);
  absl::Status Dispatch(Scope& scope, const SourceOp& op);  // ImportOp without the op's location
  // Imports an operation without attributes, or whose attributes are all in the table of hlo_attributes.h.
  absl::Status ImportPlain(Scope& scope, const SourceOp& op, const OpInfo& info);
  // Returns those HLO attributes of an op that hlo_attributes.h has. `more` are attributes that the op does not have,
  // or has as operands.
  absl::StatusOr<Attributes> BuildAttributes(Opcode opcode, const SourceOp& op,
                                             const std::vector<stablehlo::SourceNamedAttr>& more = {});
  OpMetadata MetadataAt(stablehlo::LocationId location) const;  // empty where nothing is known
  absl::Status Annotate(const SourceOp& op, const absl::Status& status) const;
  absl::Status Unknown(const SourceOp& op) const;
  absl::StatusOr<Value> Get(Scope& scope, const SourceValue* value);
  absl::StatusOr<std::vector<Value>> Operands(Scope& scope, const SourceOp& op);
  // Packs values into one: the only value itself, or a tuple of any other number of values.
  absl::StatusOr<Value> Pack(Scope& scope, std::vector<Value> values);
  absl::StatusOr<std::vector<Value>> Unpack(Scope& scope, Value packed, size_t count);
  // Binds the results of an op to `value`, or to its elements if it is a tuple, after checking the declared types.
  absl::Status Bind(Scope& scope, const SourceOp& op, Value value);
  absl::Status BindResults(Scope& scope, const SourceOp& op, const std::vector<Value>& values);
  absl::Status CheckResult(const SourceOp& op, size_t index, const Shape& shape) const;
  absl::StatusOr<Shape> ResultShape(const SourceOp& op) const;  // a tuple unless there is exactly one result
  absl::Status ApplyOpAttributes(const SourceOp& op, Value value);
  absl::Status AddFrontendAttribute(Value value, absl::string_view name, absl::string_view text);
  // Parses a sharding, or returns the one that another operation has with the same text.
  absl::StatusOr<std::shared_ptr<const Sharding>> GetSharding(absl::string_view text);

  // regions.cc
  // Imports a region that uses no values from outside, such as the body of a reduction, sort or map.
  absl::StatusOr<Computation*> ImportClosedRegion(const SourceRegion& region, absl::string_view name);
  // Returns the values that are used inside the regions and defined outside, in the order of first use. Omits
  // constants.
  std::vector<const SourceValue*> Captures(absl::Span<const SourceRegion* const> regions);
  void CollectCaptures(const SourceBlock& block, absl::flat_hash_map<const SourceValue*, bool>* defined,
                       absl::flat_hash_map<const SourceValue*, bool>* seen, std::vector<const SourceValue*>* out);
  // Imports a region as a computation with one packed parameter, which holds the block arguments and then the captures.
  // Its root packs the results of the block, followed by the captures if `pass_on` is set.
  absl::StatusOr<Computation*> ImportPackedRegion(const SourceRegion& region, absl::string_view name,
                                                  const Shape& parameter,
                                                  const std::vector<const SourceValue*>& captures, bool pass_on);

  absl::Status ImportWhile(Scope&, const SourceOp&);
  absl::Status ImportConditional(Scope&, const SourceOp&);
  absl::Status ImportCall(Scope&, const SourceOp&);
  absl::Status ImportComposite(Scope&, const SourceOp&);
  absl::Status ImportAsyncStart(Scope&, const SourceOp&);
  absl::Status ImportAsyncDone(Scope&, const SourceOp&);

  // elementwise.cc
  absl::Status ImportCompare(Scope&, const SourceOp&);
  absl::Status ImportConvert(Scope&, const SourceOp&);
  absl::Status ImportConstant(Scope&, const SourceOp&);
  absl::Status ImportIota(Scope&, const SourceOp&);
  absl::Status ImportId(Scope&, const SourceOp&);
  absl::Status ImportRng(Scope&, const SourceOp&);

  // movement.cc
  absl::Status ImportBroadcast(Scope&, const SourceOp&);
  absl::Status ImportReshape(Scope&, const SourceOp&);
  absl::Status ImportDynamicPad(Scope&, const SourceOp&);
  absl::Status ImportDynamicGather(Scope&, const SourceOp&);
  absl::Status ImportRealDynamicSlice(Scope&, const SourceOp&);
  absl::Status ImportTorchIndexSelect(Scope&, const SourceOp&);
  // Returns the value of an operand that is a constant in the program, or null.
  static const SourceAttr* ConstantOperand(const SourceOp& op, size_t index);

  // contraction.cc
  absl::Status ImportDot(Scope&, const SourceOp&);
  // Imports the composite xla.scaled_dot. Returns false if its attributes are not those that JAX writes.
  absl::StatusOr<bool> ImportScaledDot(Scope&, const SourceOp&);
  absl::Status ImportEinsum(Scope&, const SourceOp&);
  absl::Status ImportConvolution(Scope&, const SourceOp&);

  // reduction.cc
  absl::Status ImportReduce(Scope&, const SourceOp&);
  absl::Status ImportWindowed(Scope&, const SourceOp&);
  absl::Status ImportSort(Scope&, const SourceOp&);

  // collectives.cc
  absl::Status ImportAllReduce(Scope&, const SourceOp&);
  absl::Status ImportAllGather(Scope&, const SourceOp&);
  absl::Status ImportAllToAll(Scope&, const SourceOp&);
  absl::Status ImportCollectivePermute(Scope&, const SourceOp&);
  absl::Status ImportReduceScatter(Scope&, const SourceOp&);
  absl::Status ImportCrossReplicaSum(Scope&, const SourceOp&);
  absl::StatusOr<ReplicaGroups> MeshReplicaGroups(const SourceAttr* by_axes);
  // Sets the replica groups of an op, if it has any.
  absl::Status SetReplicaGroups(const SourceOp& op, Attributes* attrs);
  absl::StatusOr<Attributes> CollectiveAttributes(Opcode opcode, const SourceOp& op);  // BuildAttributes and the groups

  // rooted_collectives.cc: collective_broadcast and collective_reduce
  absl::Status ImportRootedCollective(Scope&, const SourceOp&);

  // tokens.cc
  absl::Status ImportTuple(Scope&, const SourceOp&);
  absl::Status ImportGetTupleElement(Scope&, const SourceOp&);
  absl::Status ImportBarrier(Scope&, const SourceOp&);
  absl::Status ImportAfterAll(Scope&, const SourceOp&);
  absl::Status ImportInfeed(Scope&, const SourceOp&);
  absl::Status ImportOutfeed(Scope&, const SourceOp&);
  absl::Status ImportSend(Scope&, const SourceOp&);
  absl::Status ImportRecv(Scope&, const SourceOp&);

  // custom.cc
  absl::Status ImportCustomCall(Scope&, const SourceOp&);
  absl::Status ImportControlDependency(Scope&, const SourceOp&);
  absl::StatusOr<bool> ImportCompilerCall(Scope&, const SourceOp&, absl::string_view target);
  absl::Status ImportApproxTopK(Scope&, const SourceOp&);
  absl::Status ImportRaggedAllToAll(Scope&, const SourceOp&);

  // quantized.cc: any op with a quantized operand or result
  absl::Status ImportQuantized(Scope&, const SourceOp&);

  // shardy.cc
  absl::Status ImportMesh(const SourceOp& op);
  absl::Status ShardParameter(Value parameter, absl::string_view text);
  // Converts Shardy's text, or returns what it was converted to before.
  absl::StatusOr<std::shared_ptr<const ShardySharding>> GetShardySharding(
      absl::string_view text, int64_t rank, const std::set<std::string>* only_axes = nullptr);
  // Returns x with a sharding annotation from the text of mhlo or sdy, or x itself on one partition or if the text is
  // empty.
  absl::StatusOr<Value> WithSharding(Scope& scope, Value x, const SourceAttr* sharding);
  absl::Status ShardResults(Scope& scope, const SourceOp& function, std::vector<Value>* results);
  absl::Status ShardCustomCall(const SourceOp& op, Value call);
  absl::Status ImportShardingGroup(Scope& scope, const SourceOp& op);
  absl::Status ImportShardyIdentity(Scope&, const SourceOp&);
  absl::Status ImportManualComputation(Scope&, const SourceOp&);

  // chlo.cc
  absl::Status ImportChlo(Scope&, const SourceOp&);
  absl::Status ImportChloBroadcast(Scope&, const SourceOp&, absl::string_view inner);
  absl::Status ImportRaggedDot(Scope&, const SourceOp&);
  absl::Status ImportScan(Scope&, const SourceOp&);
  absl::Status ImportMulhi(Scope&, const SourceOp&);
  absl::Status ImportTopK(Scope&, const SourceOp&, int64_t k, bool largest = true);

  const stablehlo::SourceModule& source_;
  stablehlo::SourceArena arena_;  // ops, values and types that expansions make up
  std::unique_ptr<Module> module_;
  absl::flat_hash_map<absl::string_view, Computation*> functions_;  // null while being imported
  std::map<std::string, std::string> meshes_;
  // What operations share in the program, instructions share as well.
  absl::flat_hash_map<std::string, std::shared_ptr<const Sharding>> shardings_;               // by text
  absl::flat_hash_map<std::string, std::shared_ptr<const ShardySharding>> shardy_shardings_;  // by text, rank and axes
  absl::flat_hash_map<const SourceAttr*, std::shared_ptr<const Literal>> literals_;
  absl::flat_hash_map<const SourceAttr*, ReplicaGroups> groups_;  // those in iota form
  int depth_ = 0;
  // The bytes that attributes of custom calls and composites may still take. Operations share attributes, and a splat
  // stands for any number of elements, so a short program could fill the memory.
  int64_t attribute_budget_ = int64_t{1} << 28;
  ExpansionBudget expansion_budget_;  // for all of the module
};

// The largest depth to which functions and regions may nest and call each other.
inline constexpr int kMaxImportDepth = 384;

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_IMPORTER_H_
