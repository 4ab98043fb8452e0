"""The laboratory beside leapdecode: tasks, public sets, measuring, reports and comparisons."""
