/** Every character that JSON escapes, and others that look so. */
const codes = [...Array(32).keys(), 34, 39, 47, 92, 127, 128, 0x2028, 0xfeff, 0xfffd, 0x1f642]
export const escapedText = String.fromCodePoint(...codes)
const text = `char(${codes})`

/** What version 2 has made: a space with both profiles, and one in which only Profile A was written to. */
export const fileOfVersion2 = `
  pragma application_id = 0x746f646f;
  pragma user_version = 2;
  create table spaces (
    space text primary key,
    last_id integer,
    last_place integer,
    version_a integer not null,
    version_b integer not null
  ) strict, without rowid;
  create table items_a (
    space text,
    id integer,
    name text,
    is_complete integer not null,
    secret text,
    version integer not null,
    primary key (space, id)
  ) strict, without rowid;
  create table items_b (
    space text,
    place integer,
    id text not null,
    name text not null,
    notes text not null,
    done integer not null,
    primary key (space, place),
    unique (space, id)
  ) strict, without rowid;
  create trigger items_a_insert after insert on items_a begin
    update spaces set version_a = version_a + 1, last_id = max(last_id, new.id) where space = new.space;
  end;
  create trigger items_a_update after update on items_a begin
    update spaces set version_a = version_a + 1 where space = new.space;
  end;
  create trigger items_a_delete after delete on items_a begin
    update spaces set version_a = version_a + 1 where space = old.space;
  end;
  create trigger items_b_insert after insert on items_b begin
    update spaces set version_b = version_b + 1, last_place = max(last_place, new.place) where space = new.space;
  end;
  create trigger items_b_update after update on items_b begin
    update spaces set version_b = version_b + 1 where space = new.space;
  end;
  create trigger items_b_delete after delete on items_b begin
    update spaces set version_b = version_b + 1 where space = old.space;
  end;
  insert into spaces values ('', 0, 0, 100, 200), ('ada', 7, null, 300, 400);
  insert into items_a values
    ('', 9223372036854775806, ${text}, 0, ${text}, 101),
    ('', -5, null, 1, null, 102),
    ('ada', 3, 'x', 0, '', 301);
  insert into items_b values
    ('', 4, 'z' || ${text}, ${text}, ${text}, 1),
    ('', 7, 'y', 'n', 'o', 0);`

export const itemsOfVersion2 = {
  a: {
    items: [
      { id: '-5', name: null, isComplete: true, secret: null },
      { id: '9223372036854775806', name: escapedText, isComplete: false, secret: escapedText },
    ],
    lastId: '9223372036854775806',
  },
  b: {
    items: [
      { id: `z${escapedText}`, name: escapedText, notes: escapedText, done: true },
      { id: 'y', name: 'n', notes: 'o', done: false },
    ],
  },
}

export const itemsOfAda = { a: { items: [{ id: '3', name: 'x', isComplete: false, secret: '' }], lastId: '7' } }
