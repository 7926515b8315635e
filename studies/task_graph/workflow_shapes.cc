/// Graphs with the shapes of scientific workflows.

#include <algorithm>
#include <random>
#include <vector>

#include "studies/task_graph/generators.h"

namespace ibcoll::task_graph {

namespace {

/// Adds tasks of a workflow; weights vary by a fifth around what a kind of task takes.
class Workflow {
 public:
  Workflow(int64_t tasks, uint64_t seed) : builder_(tasks, 2 * tasks), random_(seed) {}

  TaskId add(Time usual, const std::vector<TaskId>& needs) {
    const Time fifth = usual / 5;
    const auto shift = static_cast<Time>(random_() % static_cast<uint64_t>(2 * fifth + 1));
    return builder_.add(std::max<Time>(1, usual - fifth + shift), needs);
  }
  /// One task for each of `needs`.
  std::vector<TaskId> add_each(Time usual, const std::vector<TaskId>& needs) {
    std::vector<TaskId> added;
    added.reserve(needs.size());
    for (TaskId need : needs) added.push_back(add(usual, {need}));
    return added;
  }
  TaskGraph finish() { return std::move(builder_).finish(); }

 private:
  TaskGraph::Builder builder_;
  std::mt19937_64 random_;
};

}  // namespace

TaskGraph montage(int images, uint64_t seed) {
  constexpr Time kProject = 173, kFit = 66, kCorrect = 172, kTable = 278, kPicture = 64;
  // What is about the whole mosaic takes so long for each image.
  const Time join = Time{7} * images, fit_model = Time{18} * images, sum_up = Time{13} * images,
             shrink = Time{3} * images;
  Workflow workflow(int64_t{images} * 4 + 6, seed);
  std::vector<TaskId> projected;
  for (int i = 0; i < images; ++i) projected.push_back(workflow.add(kProject, {}));
  int columns = 1;
  while (columns * columns < images) ++columns;
  std::vector<TaskId> fits;
  for (int i = 0; i < images; ++i) {
    if ((i + 1) % columns != 0 && i + 1 < images)
      fits.push_back(workflow.add(kFit, {projected[i], projected[i + 1]}));
    if (i + columns < images)
      fits.push_back(workflow.add(kFit, {projected[i], projected[i + columns]}));
  }
  const TaskId model = workflow.add(fit_model, {workflow.add(join, fits)});
  std::vector<TaskId> corrected;
  for (TaskId image : projected) corrected.push_back(workflow.add(kCorrect, {image, model}));
  const TaskId sum = workflow.add(sum_up, {workflow.add(kTable, corrected)});
  workflow.add(kPicture, {workflow.add(shrink, {sum})});
  return workflow.finish();
}

TaskGraph epigenomics(int lanes, int pieces, uint64_t seed) {
  constexpr Time kSplit = 3400, kFilter = 250, kConvert = 50, kBinary = 140, kMap = 20'000,
                 kMerge = 1100, kIndex = 4400, kPile = 5600;
  Workflow workflow(int64_t{lanes} * (4 * int64_t{pieces} + 2) + 2, seed);
  std::vector<TaskId> merged;
  for (int lane = 0; lane < lanes; ++lane) {
    const TaskId split = workflow.add(kSplit, {});
    std::vector<TaskId> at = workflow.add_each(kFilter, std::vector<TaskId>(pieces, split));
    for (const Time step : {kConvert, kBinary, kMap}) at = workflow.add_each(step, at);
    merged.push_back(workflow.add(kMerge, at));
  }
  const TaskId all = workflow.add(kMerge, merged);
  workflow.add(kPile, {workflow.add(kIndex, {all})});
  return workflow.finish();
}

TaskGraph ligo(int groups, int segments, uint64_t seed) {
  constexpr Time kBank = 1800, kFilter = 46'000, kCoincidence = 540, kTrigger = 510;
  Workflow workflow(int64_t{groups} * (4 * int64_t{segments} + 2), seed);
  for (int group = 0; group < groups; ++group) {
    std::vector<TaskId> at(segments, -1);  // what needs nothing
    for (const Time step : {kBank, kFilter}) at = workflow.add_each(step, at);
    const TaskId first = workflow.add(kCoincidence, at);
    at.assign(segments, first);
    for (const Time step : {kTrigger, kFilter}) at = workflow.add_each(step, at);
    workflow.add(kCoincidence, at);
  }
  return workflow.finish();
}

TaskGraph cybershake(int sites, int variations, uint64_t seed) {
  constexpr Time kTensor = 11'000, kSeismogram = 7900, kPeak = 55, kPackSeismograms = 26'600,
                 kPackPeaks = 19'600;
  Workflow workflow(int64_t{sites} * (4 * int64_t{variations} + 2) + 2, seed);
  std::vector<TaskId> seismograms, peaks;
  for (int tensor = 0; tensor < 2 * sites; ++tensor) {
    const TaskId extracted = workflow.add(kTensor, {});
    for (int i = 0; i < variations; ++i) {
      seismograms.push_back(workflow.add(kSeismogram, {extracted}));
      peaks.push_back(workflow.add(kPeak, {seismograms.back()}));
    }
  }
  workflow.add(kPackSeismograms, seismograms);
  workflow.add(kPackPeaks, peaks);
  return workflow.finish();
}

}  // namespace ibcoll::task_graph
