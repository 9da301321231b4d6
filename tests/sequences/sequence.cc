#include "tests/sequences/sequence.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "absl/strings/str_cat.h"
#include "sdk/host/loader.h"
#include "sdk/layers/validate/validate.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

const std::vector<Step>& AllSteps() {
  static const std::vector<Step>& steps = *[] {
    auto* all = new std::vector<Step>;
    for (const auto& part : {HandleSteps(), BufferSteps(), CopySteps(), ProgramSteps(), TransferSteps(), OtherSteps()})
      all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return steps;
}

const Step& RandomStep(Random& random, bool parallel) {
  size_t total = 0;
  for (const Step& s : AllSteps()) total += !parallel || s.parallel ? static_cast<size_t>(s.weight) : 0;
  size_t at = random.Below(total);
  for (const Step& s : AllSteps()) {
    if (parallel && !s.parallel) continue;
    if (at < static_cast<size_t>(s.weight)) return s;
    at -= static_cast<size_t>(s.weight);
  }
  return AllSteps().front();
}

void RunStep(const Step& step, Actor& actor) {
  try {
    step.run(actor);
  } catch (const NotOffered&) {
    actor.Note("# not offered\n");
  }
}

// Runs steps in two or three threads at once, each with objects of its own and the live objects of `actor`.
void RunParallel(Actor& actor, supervisor::Shared& log) {
  const size_t threads = 2 + actor.random.Below(2);
  std::vector<std::unique_ptr<Actor>> parts;
  std::vector<std::string> wrongs(threads);
  for (size_t i = 0; i < threads; ++i) {
    parts.push_back(
        std::make_unique<Actor>(actor.api(), log, absl::StrCat("t", i + 1, "."), actor.random.Next(), true));
    parts[i]->create_options = actor.create_options;
    parts[i]->target = actor.target;
    for (const Item& item : actor.items) {
      if (item->alive && (item->type == Type::Client || item->type == Type::Buffer || item->type == Type::Device ||
                          item->type == Type::LoadedExecutable || item->type == Type::Executable))
        parts[i]->shared.push_back(item);
    }
  }
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back([&part = *parts[i], &wrong = wrongs[i]] {
      try {
        for (size_t steps = 2 + part.random.Below(5); steps > 0; --steps) RunStep(RandomStep(part.random, true), part);
      } catch (const Wrong& w) {
        wrong = w.what;
      } catch (const std::exception& e) {
        wrong = absl::StrCat("an exception: ", e.what());
      }
    });
  }
  for (std::thread& t : running) t.join();
  for (const std::string& wrong : wrongs) {
    if (!wrong.empty()) throw Wrong{wrong};
  }
  // An object of another thread may have reused the address of one that died, so only live objects are merged.
  for (auto& part : parts) {
    for (size_t k = 0; k < kMisuses; ++k) actor.expected[k] += part->expected[k];
    actor.of_another_type += part->of_another_type;
    for (const Item& item : part->items) {
      if (!item->alive) continue;
      for (size_t i = actor.items.size(); i-- > 0;) {
        const Thing& old = *actor.items[i];
        if (old.type == item->type && old.handle == item->handle && !old.alive)
          actor.items.erase(actor.items.begin() + static_cast<ptrdiff_t>(i));
      }
      actor.items.push_back(item);
    }
  }
}

void Compare(const Actor& actor, const layers::Layer& layer) {
  const layers::Report& report = layers::GetReport(layer);
  Counts counts;
  for (size_t k = 0; k < kMisuses; ++k) counts[k] = report.GetCount(kMisuseNames[k]);
  // Of objects of another type the layer may tell that one of the wanted type ended at their address.
  uint64_t spare = actor.of_another_type;
  for (const Misuse k : {kUseAfterDestroy, kDoubleDestroy}) {
    const uint64_t more = counts[k] - std::min(counts[k], actor.expected[k]);
    const uint64_t told_instead = std::min(more, spare);
    spare -= told_instead;
    counts[k] -= told_instead;
    counts[kUnknownHandle] += told_instead;
  }
  for (size_t k = 0; k < kMisuses; ++k) {
    if (counts[k] != actor.expected[k])
      throw Wrong{absl::StrCat("the layer has found ", kMisuseNames[k], " ", counts[k], " times, there were ",
                               actor.expected[k])};
  }
}

// Destroys everything except intentional leaks, which the layer must report.
void End(Actor& actor, layers::Layer& layer, bool leaks) {
  actor.Note("# the end\n");
  std::vector<bool> leaked(static_cast<size_t>(Type::kCount));
  std::vector<Item> clients;
  for (const Item& i : std::vector<Item>(actor.items)) {
    if (!i->alive || !i->owned) continue;
    if (i->type == Type::Client) {
      clients.push_back(i);
      continue;
    }
    if (leaks && actor.random.OneIn(8)) {
      leaked[static_cast<size_t>(i->type)] = leaked[static_cast<size_t>(Type::Client)] = true;
      continue;
    }
    actor.Destroy(i);
  }
  // Keeps the clients of leaked objects.
  const bool any = leaked[static_cast<size_t>(Type::Client)];
  for (const Item& client : clients) {
    if (!any) actor.Destroy(client);
  }
  if (any && clients.empty()) leaked[static_cast<size_t>(Type::Client)] = false;
  Compare(actor, layer);
  layer.End();
  for (const bool type : leaked) actor.Expect(kLeak, type ? 1 : 0);
  Compare(actor, layer);
}

}  // namespace

size_t NumSteps(uint64_t number) { return 4 + Random(number * 7 + 3).Below(24); }

std::string RunSequence(const Settings& settings, uint64_t number, supervisor::Shared& shared) {
  static const absl::StatusOr<const host::Plugin*>& plugin =
      *new absl::StatusOr<const host::Plugin*>(host::Plugin::Load(settings.plugin));
  if (!plugin.ok()) return plugin.status().ToString();
  if (absl::Status s = (*plugin)->Initialize(); !s.ok()) return s.ToString();
  // Records stacks in some sequences only. Without them the layer reports leaks once per type.
  const bool leaks = number % 16 == 1;
  auto layer = layers::MakeLayerByName(
      "validate",
      layers::Options("validate", {{"refuse", "1"}, {"file", "none"}, {"depth", number % 16 == 2 ? "14" : "0"}}));
  if (!layer.ok()) return layer.status().ToString();
  layers::Layer& validate = **layer;
  std::vector<std::unique_ptr<layers::Layer>> layers;
  layers.push_back(*std::move(layer));
  if (!settings.record_to.empty()) {
    auto record = layers::MakeLayerByName("record", layers::Options("record", {{"file", settings.record_to}}));
    if (!record.ok()) return record.status().ToString();
    layers.push_back(*std::move(record));
  }
  auto stack = layers::Stack::Create(&(*plugin)->api(), "target", std::move(layers));
  if (!stack.ok()) return stack.status().ToString();
  Actor actor(*(*stack)->api(), shared, "", number);
  actor.create_options = settings.create_options;
  actor.target = &(*plugin)->api();
  try {
    actor.NewClient();
    const size_t steps = NumSteps(number);
    for (size_t i = 0; i < steps; ++i) {
      if (std::binary_search(settings.left_out.begin(), settings.left_out.end(), i)) continue;
      actor.random = Random(number * 1000003 + i);
      if (actor.PickClient() == nullptr) actor.NewClient();
      if (actor.random.OneIn(10)) {
        actor.Note(absl::StrCat("# step ", i, ": threads\n"));
        RunParallel(actor, shared);
      } else {
        const Step& step = RandomStep(actor.random, false);
        actor.Note(absl::StrCat("# step ", i, ": ", step.name, "\n"));
        RunStep(step, actor);
      }
      Compare(actor, validate);
    }
    End(actor, validate, leaks);
  } catch (const Wrong& wrong) {
    return wrong.what;
  } catch (const std::exception& e) {
    return absl::StrCat("an exception: ", e.what());
  }
  return "";
}

}  // namespace backplane::sequences
