// Random typed programs, the same for a seed on every machine.
//
// A program grows one recipe at a time: a recipe takes values that are there (or makes parameters, constants and
// iotas), adds an operation, and gives its result back. Each new value is evaluated and judged at once (bounds.h), and
// a value of which too little could be told afterwards - most elements undecided, or all NaN - is dropped again. So
// programs stay meaningful without rules for every combination, and nearly all of what they return is compared.
//
// What the builder refuses (an operation on a type that it does not take) is dropped as well: the operations' own
// checks are the generator's table of what is allowed. `Coverage` says what came out.
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

inline std::vector<int64_t> DimsOf(Value v) { return {v->shape().dimensions().begin(), v->shape().dimensions().end()}; }

struct GeneratorOptions {
  std::optional<Opcode> only;  // most programs contain it
  std::set<Opcode> without;    // never made
  std::set<PrimitiveType> without_types;
  int least_steps = 4, most_steps = 22;
  bool portable = false;  // leave out what StableHLO has no form for
  // Operands of products are rounded to bf16 first: a plugin whose matrix unit reads bf16 then has nothing to round.
  bool bf16_products = false;
  // Programs of up to so many devices among the others; their module says how many replicas and partitions.
  int64_t devices = 1;
  bool replicas_only = false;  // and none of several partitions
  bool quantized = false;      // also functions on quantized tensors
  // So many of a hundred programs are made of computations rather than of instructions: functions and loop bodies that
  // are called from many places, loops with state of every kind (generate_structure.cc). Not with `only`.
  int structured = 40;
  // So many of a hundred programs of one device run several times at once, beside others that share their buffers.
  int in_flight = 15;
};

struct FuzzProgram {
  uint64_t seed = 0;
  std::unique_ptr<Module> module;
  std::vector<Literal> arguments;      // of several devices, of the first: devices.h
  QuantizedFunctions quantized;        // computations that go out in quantized types
  std::vector<HostOrder> host_orders;  // how they are handed over; none for those behind the last
  // What a host does with this program and others at once; empty: it runs it and reads the results.
  std::vector<std::unique_ptr<Module>> helpers;
  std::vector<HostStep> schedule;
};

// Deterministic in seed and options.
absl::StatusOr<FuzzProgram> GenerateProgram(uint64_t seed, const GeneratorOptions& options = {});

// Why a row of the table is not generated; empty: it is. Side effects, what needs them, and collectives for programs of
// one device.
std::string NotGenerated(Opcode opcode, int64_t devices = 1);

// How often each operation was made with each element type of its (first array) result.
using Coverage = std::map<Opcode, std::map<PrimitiveType, int64_t>>;
void AddCoverage(const Module& module, Coverage& coverage);
std::string CoverageText(const Coverage& coverage, int64_t devices = 1);

// What a host that runs the program does besides handing dense arrays over: a line each.
std::vector<std::string> HandlingText(const FuzzProgram& program);

// What values an argument or constant is filled with.
enum class Fill {
  kWhole,      // small whole numbers: float sums of them are exact
  kPlain,      // floats in -2..2; integers in -8..8
  kPositive,   // 0.25..4
  kWide,       // integers over their whole range with its ends; floats as kPlain
  kSpecial,    // kPlain with NaN, infinities, -0, subnormals, largest and smallest among them
  kDefinite,   // matrices in the last two dimensions: Hermitian, positive definite, well conditioned
  kTriangular  // matrices with a diagonal away from zero
};
Literal MakeValues(Random& random, const Shape& shape, Fill fill);

// The part of the generator that recipes see.
struct Scope {
  Scope(Module* module, std::string name, int depth) : b(module, std::move(name)), depth(depth) {}
  Builder b;
  int depth;                  // 0: the entry
  bool plain = false;         // elementwise and movement recipes only
  std::vector<Value> values;  // arrays
  absl::flat_hash_map<const Instruction*, Judged> judged;
  std::set<const Instruction*> failed;  // that could not be evaluated
  std::vector<JudgedValues> others;     // of a program of several devices: what the values of the entry are on them
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
    bool plain = false;      // allowed in fusions and the like
    bool portable = true;    // has a StableHLO form
    bool nests = false;      // makes computations of recipes
    bool devices = false;    // in the entry of programs of several devices only
    bool structure = false;  // in structured programs only
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
  friend std::string NotGenerated(Opcode opcode, int64_t devices);

  // ---- Steps
  void Step(Scope& s);
  // Judges what the call added; null when it was refused, cannot be evaluated, or `v` is null.
  Value Add(Scope& s, const hlo::Result& v);
  const Judged& JudgedOf(const Scope& s, Value v) const { return s.judged.at(v); }
  bool Useful(const Judged& j) const;
  void Keep(Scope& s, Value v);  // into the scope's values; tuples taken apart
  bool HasNan(const Scope& s, Value v) const;
  // Says what a new parameter of the entry is, and takes its argument up.
  void Bind(Scope& s, Value parameter, Literal argument);
  bool several() const { return DevicesOf(*program_.module).count() > 1; }

  // ---- Values
  PrimitiveType AnyType(Kind kind);
  std::vector<int64_t> AnyDims(int64_t least_rank = 0, int64_t most_rank = 5);
  Fill AnyFill();
  Value Fresh(Scope& s, const Shape& shape, std::optional<Fill> fill = std::nullopt);
  Value Constant(Scope& s, const Shape& shape, std::optional<Fill> fill = std::nullopt);
  Value Index(Scope& s, int64_t low, int64_t high, PrimitiveType type = PrimitiveType::kS32);
  Value Any(Scope& s, Kind kind, int64_t least_rank = 0, int64_t most_rank = 5);
  Value Like(Scope& s, PrimitiveType type, absl::Span<const int64_t> dims);
  Value Identity(Scope& s, Opcode op, PrimitiveType type);
  Opcode OneOf(const std::vector<Opcode>& from);
  Value ForProduct(Scope& s, Value v);  // rounded to bf16 where the options ask for it
  Computation* Combiner(Scope& s, Opcode op, PrimitiveType type);
  std::optional<Opcode> AnyCombiner(PrimitiveType type);
  std::vector<int64_t> Subset(int64_t n, int percent);  // sorted

  // Orders of dimensions in memory.
  Layout AnyLayout(int64_t rank);
  Shape AnyOrder(Shape shape);
  // Orders of arguments and results, arguments given away, tiles on the way to the device.
  void ChooseHandling();

  // ---- Nested computations
  // Takes parameters with these judgements, runs `steps` recipes.
  std::unique_ptr<Scope> Nested(Scope& s, const std::string& name, const std::vector<Judged>& parameters, int steps,
                                bool plain, bool tuple);
  // A value of that shape in the scope; made when there is none.
  Value Matching(Scope& s, const Shape& shape);
  std::vector<Value> Chosen(Scope& s, int most);

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
  // What an element of a loop's state must start with, so that every loop over the computations ends.
  struct StateElement {
    Shape shape;
    std::optional<Literal> start;  // nothing but this
    int64_t low = 0, high = -1;    // an integer in that range; none when empty
  };
  // A condition and a body that further loops may run as well.
  struct LoopForm {
    Computation *condition = nullptr, *body = nullptr;
    std::vector<StateElement> state;
    int64_t packed = 0;  // so many last elements are a tuple of their own, the state's last element
  };
  struct StateScope;
  StateScope OpenState(Scope& s, const std::string& name, const Judged& state, int64_t packed, bool plain);
  std::optional<std::vector<Value>> StartOf(Scope& s, const LoopForm& form);
  Value RunLoop(Scope& s, const LoopForm& form, const std::vector<Value>& start);
  std::optional<LoopForm> MakeLoop(Scope& s, std::vector<Value>* start);
  Value Scalar(Scope& s, Literal value, int argument_percent);
  Value Reduced(Scope& s, Value v, Opcode op);
  Value Decision(Scope& s);
  Computation* MakeFunction(Scope& s, bool tuple);
  std::optional<std::vector<Value>> ArgumentsFor(Scope& s, const std::vector<Shape>& shapes);
  double CostOf(const Computation* c);
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
    std::optional<bool> numbers;  // the ids are numbers of devices
    int64_t size = 1;             // members of a group
  };
  // `combines`: for what reduces and gathers, whose ids mean other things; `one_size`: groups of one size only.
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
  int64_t channels_ = 0;  // given out so far
  bool structured_ = false;
  std::vector<Computation*> functions_, branches_;  // of arrays; of one tuple
  std::vector<LoopForm> loops_;
  absl::flat_hash_map<const Computation*, double> costs_;
};

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_GENERATOR_H_
