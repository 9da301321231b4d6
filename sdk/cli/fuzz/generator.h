// Generates random typed programs. A seed gives the same program on every machine.
//
// A program grows by one recipe at a time. A recipe takes existing values (or makes parameters, constants and iotas),
// adds an operation, and returns its result. Each new value is evaluated with bounds at once (bounds.h). It is dropped
// if its bounds are useless, because too many elements are undecided or have a large bound, or if too many elements are
// NaN or infinite. So programs stay meaningful without rules for every combination, and nearly all of their results are
// compared.
//
// Operations that the builder refuses, such as one with an unsupported type, are dropped as well, so the operations'
// own checks define what is permitted. `Coverage` counts what was generated.
#ifndef BACKPLANE_SDK_CLI_FUZZ_GENERATOR_H_
#define BACKPLANE_SDK_CLI_FUZZ_GENERATOR_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ir/ops/ops.h"
#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/devices.h"
#include "sdk/cli/fuzz/host_order.h"
#include "sdk/cli/fuzz/quantized.h"
#include "sdk/cli/fuzz/random.h"
#include "sdk/cli/fuzz/schedule.h"

namespace backplane::cli::fuzz {

inline std::vector<int64_t> GetDims(Value v) {
  return {v->shape().dimensions().begin(), v->shape().dimensions().end()};
}

struct GeneratorOptions {
  std::optional<Opcode> only;  // most programs contain it
  std::set<Opcode> without;    // not generated
  std::set<PrimitiveType> without_types;
  int least_steps = 4, most_steps = 22;
  bool portable = false;  // omits what StableHLO cannot express
  // Rounds operands of products to bf16 first, so that a plugin whose matrix unit reads bf16 has nothing to round.
  bool bf16_products = false;
  // Also generates programs on up to this number of devices; their module states replicas and partitions.
  int64_t devices = 1;
  bool replicas_only = false;  // one partition only
  bool quantized = false;      // also functions on quantized tensors
  // The percentage of programs that consist of computations with several callers and of loops with state of every kind
  // (generate_structure.cc). Not used with `only`.
  int structured = 40;
  // The percentage of short programs on one device whose sizes are those at which libraries and kernels change: full
  // registers, blocks and pieces of work, one less and one more (15 to 513).
  int thresholds = 0;
  // The percentage of programs on one device that run several times at once, with others that share their buffers.
  int in_flight = 15;
};

struct FuzzProgram {
  uint64_t seed = 0;
  std::unique_ptr<Module> module;
  std::vector<Literal> arguments;      // on several devices, those of the first one (devices.h)
  QuantizedFunctions quantized;        // computations that are sent with quantized types
  std::vector<HostOrder> host_orders;  // how arguments are passed; the default for those after the last
  // The steps of a host that runs this program and helper programs at the same time (schedule.h). If empty, the host
  // runs the program once and reads the results.
  std::vector<std::unique_ptr<Module>> helpers;
  std::vector<HostStep> schedule;
};

// Deterministic in seed and options.
absl::StatusOr<FuzzProgram> GenerateProgram(uint64_t seed, const GeneratorOptions& options = {});

// Returns the reason why an operation is not generated; empty if it is. The reasons are side effects, dependence on
// them, and collectives in programs on one device.
std::string ExplainNotGenerated(Opcode opcode, int64_t devices = 1);

// Counts how often each operation was generated with each element type of its (first) result.
using Coverage = std::map<Opcode, std::map<PrimitiveType, int64_t>>;
void AddCoverage(const Module& module, Coverage& coverage);
std::string PrintCoverage(const Coverage& coverage, int64_t devices = 1);

// Describes what a host does in addition to passing dense arrays, one line each.
std::vector<std::string> DescribeHandling(const FuzzProgram& program);

// The kinds of values with which an argument or constant is filled.
enum class Fill {
  kWhole,      // small integers: float sums of them are exact
  kPlain,      // floats in -2..2; integers in -8..8
  kPositive,   // 0.25..4
  kWide,       // integers over their whole range including its ends; floats as kPlain
  kSpecial,    // kPlain with NaN, infinities, -0, subnormal, largest and smallest numbers
  kDefinite,   // matrices in the last two dimensions: Hermitian, positive definite, well conditioned
  kTriangular  // matrices whose diagonal is not near zero
};
Literal MakeValues(Random& random, const Shape& shape, Fill fill);

// The part of the generator that recipes use.
struct Scope {
  Scope(Module* module, std::string name, int depth) : b(module, std::move(name)), depth(depth) {}
  Builder b;
  int depth;                  // 0: the entry computation
  bool plain = false;         // elementwise and movement recipes only
  std::vector<Value> values;  // arrays
  absl::flat_hash_map<const Instruction*, BoundedValue> bounded;
  std::set<const Instruction*> failed;  // could not be evaluated
  std::vector<BoundedValues> others;    // on several devices: the values of the entry computation on all of them
};

enum class Kind { kAny, kFloat, kReal, kInteger, kComplex, kPred, kNumber, kBits };

class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options);
  absl::StatusOr<FuzzProgram> Make();

 private:
  struct Recipe {
    int weight;
    std::vector<Opcode> makes;
    Value (Generator::*make)(Scope&);
    bool plain = false;      // permitted in fusions and the like
    bool portable = true;    // has a StableHLO form
    bool nests = false;      // creates computations with recipes
    bool devices = false;    // only in the entry computation of programs on several devices
    bool structure = false;  // only in structured programs
  };
  static const std::vector<Recipe>& Recipes();
  static std::vector<Recipe> ElementwiseRecipes();
  static std::vector<Recipe> MovementRecipes();
  static std::vector<Recipe> ReductionRecipes();
  static std::vector<Recipe> NumericRecipes();
  static std::vector<Recipe> ControlRecipes();
  static std::vector<Recipe> BodyRecipes();
  static std::vector<Recipe> BoundedRecipes();
  static std::vector<Recipe> DeviceRecipes();
  static std::vector<Recipe> LoopRecipes();
  static std::vector<Recipe> SharingRecipes();
  friend std::string ExplainNotGenerated(Opcode opcode, int64_t devices);

  // ---- Steps
  void Step(Scope& s);
  // Evaluates the instructions that the call added. Returns null if the call was refused, cannot be evaluated, or `v`
  // is null.
  Value Add(Scope& s, const hlo::Result& v);
  const BoundedValue& GetBoundedValue(const Scope& s, Value v) const { return s.bounded.at(v); }
  bool IsUseful(const BoundedValue& j) const;
  void Keep(Scope& s, Value v);  // adds the elements of a tuple to the scope's values
  bool HasNan(const Scope& s, Value v) const;
  // Sets the value of a new parameter of the entry computation and adds its argument.
  void Bind(Scope& s, Value parameter, Literal argument);
  bool several() const { return GetDevices(*program_.module).count() > 1; }

  // ---- Values
  PrimitiveType AnyType(Kind kind);
  std::vector<int64_t> AnyDims(int64_t least_rank = 0, int64_t most_rank = 5);
  // Returns a size with low <= result <= high, or one at which an implementation may change.
  int64_t AnySize(int64_t low, int64_t high);
  Fill AnyFill();
  Value MakeFreshValue(Scope& s, const Shape& shape, std::optional<Fill> fill = std::nullopt);
  Value Constant(Scope& s, const Shape& shape, std::optional<Fill> fill = std::nullopt);
  Value Index(Scope& s, int64_t low, int64_t high, PrimitiveType type = PrimitiveType::kS32);
  Value Any(Scope& s, Kind kind, int64_t least_rank = 0, int64_t most_rank = 5);
  Value Like(Scope& s, PrimitiveType type, absl::Span<const int64_t> dims);
  Value Identity(Scope& s, Opcode op, PrimitiveType type);
  Opcode PickOne(const std::vector<Opcode>& from);
  Value RoundForProduct(Scope& s, Value v);  // rounded to bf16 if the options request it
  Computation* Combiner(Scope& s, Opcode op, PrimitiveType type);
  std::optional<Opcode> AnyCombiner(PrimitiveType type);
  std::vector<int64_t> ChooseSubset(int64_t n, int percent);  // sorted

  // Chooses orders of dimensions in memory.
  Layout AnyLayout(int64_t rank);
  Shape AnyOrder(Shape shape);
  // Chooses orders of arguments and results, donation, and tiled copies.
  void ChooseHandling();

  // ---- Nested computations
  // Creates a computation with parameters of these values and runs `steps` recipes in it.
  std::unique_ptr<Scope> MakeNestedScope(Scope& s, const std::string& name, const std::vector<BoundedValue>& parameters,
                                         int steps, bool plain, bool tuple);
  // Returns a value of that shape in the scope; creates one if there is none.
  Value FindOrMake(Scope& s, const Shape& shape);
  std::vector<Value> ChooseValues(Scope& s, int most);

  // ---- Recipes, in the files generate_*.cc
  Value Unary(Scope& s);
  Value Binary(Scope& s);
  Value Compare(Scope& s);
  Value Select(Scope& s);
  Value Clamp(Scope& s);
  Value Convert(Scope& s);
  Value BitcastConvert(Scope& s);
  Value ReducePrecision(Scope& s);
  Value Map(Scope& s);
  Value Chain(Scope& s);
  Value ComplexParts(Scope& s);

  Value Broadcast(Scope& s);
  Value Reshape(Scope& s);
  Value Transpose(Scope& s);
  Value Reverse(Scope& s);
  Value Concatenate(Scope& s);
  Value Slice(Scope& s);
  Value Pad(Scope& s);
  Value Copy(Scope& s);
  Value Bitcast(Scope& s);
  Value Iota(Scope& s);
  Value DynamicSlice(Scope& s);
  Value DynamicUpdateSlice(Scope& s);
  Value Gather(Scope& s);
  Value Scatter(Scope& s);
  Value ScatterSet(Scope& s);
  Value DimensionSize(Scope& s);
  Value SetDimensionSize(Scope& s);
  Value DynamicReshape(Scope& s);
  Value BoundedChain(Scope& s);
  Value ScatterSeveral(Scope& s);

  Value Reduce(Scope& s);
  Value ReduceSeveral(Scope& s);
  Value ArgMax(Scope& s);
  Value ReduceWindow(Scope& s);
  Value Cumulative(Scope& s);
  Value ReduceByArrays(Scope& s);
  Value ReduceByControl(Scope& s);
  Value SortOddly(Scope& s);
  Value SelectAndScatter(Scope& s);
  Value Sort(Scope& s);
  Value TopK(Scope& s);
  Value Scan(Scope& s);

  Value Dot(Scope& s);
  Value RaggedDot(Scope& s);
  Value ScaledDot(Scope& s);
  Value Convolution(Scope& s);
  Value BatchNorm(Scope& s);
  Value Cholesky(Scope& s);
  Value TriangularSolve(Scope& s);
  Value Fft(Scope& s);
  Value RandomBits(Scope& s);

  Value Call(Scope& s);
  Value Quantized(Scope& s);
  Value Fusion(Scope& s);
  Value Async(Scope& s);
  Value CopyAsync(Scope& s);
  Value While(Scope& s);
  Value LoopOverRows(Scope& s);
  Value Conditional(Scope& s);
  Value Barrier(Scope& s);
  Value Dependency(Scope& s);
  Value Domain(Scope& s);
  Value DeviceId(Scope& s);

  // ---- Structured programs: generate_structure.cc, generate_sharing.cc
  // The permitted initial values of a state element, so that every loop with these computations ends.
  struct StateElement {
    Shape shape;
    std::optional<Literal> start;  // only this value
    int64_t low = 0, high = -1;    // an integer in this range; no limit if empty
  };
  // A condition and a body that further loops may use as well.
  struct LoopForm {
    Computation *condition = nullptr, *body = nullptr;
    std::vector<StateElement> state;
    int64_t packed = 0;  // the number of last elements that are in a nested tuple
  };
  struct StateScope;
  StateScope OpenState(Scope& s, const std::string& name, const BoundedValue& state, int64_t packed, bool plain);
  std::optional<std::vector<Value>> MakeStart(Scope& s, const LoopForm& form);
  Value RunLoop(Scope& s, const LoopForm& form, const std::vector<Value>& start);
  std::optional<LoopForm> MakeLoop(Scope& s, std::vector<Value>* start);
  Value Scalar(Scope& s, Literal value, int argument_percent);
  Value ReduceToScalar(Scope& s, Value v, Opcode op);
  Value MakeDecision(Scope& s);
  Computation* MakeFunction(Scope& s, bool tuple);
  std::optional<std::vector<Value>> ArgumentsFor(Scope& s, const std::vector<Shape>& shapes);
  double EstimateCost(const Computation* c);
  Value StateLoop(Scope& s);
  Value BatchedLoop(Scope& s);
  Value CallShared(Scope& s);
  Value SharedBranches(Scope& s);
  Value Recomputed(Scope& s);
  Value SharedCombiner(Scope& s);
  Value SharedOrder(Scope& s);
  void AddAliasedResults(Scope& s, std::vector<Value>& results);

  struct Members {
    ReplicaGroups groups;
    hlo::Channel channel;
    std::optional<bool> numbers;  // whether the ids are device numbers
    int64_t size = 1;             // number of members of a group
  };
  // `combines`: for operations that reduce or gather, whose ids have other meanings; `one_size`: only groups of equal
  // size.
  Members AnyMembers(bool combines, bool one_size);
  Pairs AnyPairs(int64_t ids);
  Value AllReduce(Scope& s);
  Value AllGather(Scope& s);
  Value ReduceScatter(Scope& s);
  Value AllToAll(Scope& s);
  Value CollectivePermute(Scope& s);
  Value CollectiveBroadcast(Scope& s);
  Value ByDevice(Scope& s);
  Value CollectiveHalves(Scope& s);

  Random random_;
  GeneratorOptions options_;
  FuzzProgram program_;
  bool special_ = false;  // special values among the arguments
  bool large_ = false;    // sizes that reach vector and parallel code
  int64_t channels_ = 0;  // channels in use
  bool structured_ = false, thresholds_ = false;
  std::vector<Computation*> functions_, branches_;  // of arrays; of one tuple
  std::vector<LoopForm> loops_;
  absl::flat_hash_map<const Computation*, double> costs_;
};

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_GENERATOR_H_
